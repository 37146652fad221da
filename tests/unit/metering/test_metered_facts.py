"""What is told of an hour is built from all of its rows."""

import json
from datetime import timedelta

import msgspec

from services.metering.domain.facts import Conflict, MeteredHour, StoredWindows, metered_hours
from services.metering.domain.state import state_of
from services.metering.usecases.metered_message import encode_metered
from shared.contracts.facts import Segment, UsageMetered
from tests.support.metering import HOUR, SINCE

ODD_LABELS = {"project": 'a "b" \\ c', "项目": "裁剪 🚀", "\u2028": "</script>"}
GPU = state_of("rtx-4090", 8, "gpu", "on_demand", (("project", "clip"),)).canonical
NO_GPU = state_of("rtx-4090", 8, "no_gpu", "on_demand", ()).canonical
KEY = ("acct-7", "inst-8f2c", HOUR)
OTHER_KEY = ("acct-7", "inst-2", HOUR + 3600)


def test_an_hour_of_one_row_is_told_as_it_is_stored() -> None:
    stored = StoredWindows([0], [SINCE], [GPU], ["{[0,60),[70,80)}"], [3])
    assert metered_hours([KEY], stored) == ([MeteredHour(KEY, 3, [(GPU, "{[0,60),[70,80)}")])], [])


def test_what_is_told_is_the_fact_of_the_contract_whatever_the_labels_hold() -> None:
    odd = state_of("rtx-4090", 1, "gpu", "on_demand", tuple(ODD_LABELS.items())).canonical
    told = encode_metered(MeteredHour(KEY, 7, [(GPU, "{[0,60),[70,80)}"), (odd, "{[60,70)}")]))
    assert msgspec.json.decode(told, type=UsageMetered) == UsageMetered(
        "acct-7",
        "inst-8f2c",
        "2026-03-10T15:00:00Z",
        7,
        [
            Segment("rtx-4090", 8, "gpu", "on_demand", {"project": "clip"}, [(0, 60), (70, 80)]),
            Segment("rtx-4090", 1, "gpu", "on_demand", ODD_LABELS, [(60, 70)]),
        ],
    )
    assert json.loads(told)["segments"][1]["labels"] == ODD_LABELS


def test_rows_in_any_order_find_their_hours_and_revisions_add_up() -> None:
    later = SINCE + timedelta(seconds=1)
    stored = StoredWindows(
        positions=[1, 0, 1],
        sinces=[SINCE, SINCE, later],
        states=[GPU, GPU, NO_GPU],
        coverages=["{[0,60)}", "{[5,6)}", "{[50,70)}"],
        revisions=[3, 1, 4],
    )
    hours, conflicts = metered_hours([KEY, OTHER_KEY], stored)
    assert hours == [
        MeteredHour(KEY, 1, [(GPU, "{[5,6)}")]),
        MeteredHour(OTHER_KEY, 7, [(GPU, "{[0,50)}"), (NO_GPU, "{[50,70)}")]),
    ]
    assert conflicts == [Conflict(OTHER_KEY, 10)]


def test_segments_come_in_one_order_whatever_order_the_rows_have() -> None:
    ahead = StoredWindows([0, 0], [SINCE, SINCE], [GPU, NO_GPU], ["{[0,9)}", "{[9,20)}"], [1, 2])
    reversed_ = StoredWindows([0, 0], [SINCE, SINCE], [NO_GPU, GPU], ["{[9,20)}", "{[0,9)}"], [2, 1])
    assert metered_hours([KEY], ahead) == metered_hours([KEY], reversed_)
