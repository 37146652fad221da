"""What is told of an hour is built from all of its rows."""

from datetime import timedelta

from services.metering.domain.facts import Conflict, StoredWindows, metered_hours
from services.metering.domain.state import state_of
from shared.contracts.facts import Segment, UsageMetered
from tests.support.metering import HOUR, SINCE

GPU = state_of("rtx-4090", 8, "gpu", "on_demand", (("project", "clip"),)).canonical
NO_GPU = state_of("rtx-4090", 8, "no_gpu", "on_demand", ()).canonical
KEY = ("acct-7", "inst-8f2c", HOUR)
OTHER_KEY = ("acct-7", "inst-2", HOUR + 3600)


def test_an_hour_of_one_row_is_told_as_it_is_stored() -> None:
    stored = StoredWindows([0], [SINCE], [GPU], ["{[0,60),[70,80)}"], [3])
    facts, conflicts = metered_hours([KEY], stored)
    assert facts == [
        UsageMetered(
            "acct-7",
            "inst-8f2c",
            "2026-03-10T15:00:00Z",
            3,
            [Segment("rtx-4090", 8, "gpu", "on_demand", {"project": "clip"}, [(0, 60), (70, 80)])],
        )
    ]
    assert conflicts == []


def test_rows_in_any_order_find_their_hours_and_revisions_add_up() -> None:
    later = SINCE + timedelta(seconds=1)
    stored = StoredWindows(
        positions=[1, 0, 1],
        sinces=[SINCE, SINCE, later],
        states=[GPU, GPU, NO_GPU],
        coverages=["{[0,60)}", "{[5,6)}", "{[50,70)}"],
        revisions=[3, 1, 4],
    )
    facts, conflicts = metered_hours([KEY, OTHER_KEY], stored)
    assert [(fact.resource_id, fact.revision) for fact in facts] == [("inst-8f2c", 1), ("inst-2", 7)]
    assert {segment.mode: segment.ranges for segment in facts[1].segments} == {
        "gpu": [(0, 50)],
        "no_gpu": [(50, 70)],
    }
    assert conflicts == [Conflict(OTHER_KEY, 10)]


def test_segments_come_in_one_order_whatever_order_the_rows_have() -> None:
    ahead = StoredWindows([0, 0], [SINCE, SINCE], [GPU, NO_GPU], ["{[0,9)}", "{[9,20)}"], [1, 2])
    reversed_ = StoredWindows([0, 0], [SINCE, SINCE], [NO_GPU, GPU], ["{[9,20)}", "{[0,9)}"], [2, 1])
    assert metered_hours([KEY], ahead) == metered_hours([KEY], reversed_)
