"""When a consumer may say that it has caught up."""

from aiokafka import TopicPartition

from shared.kafka.consumer import CatchUp, Place

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_with_nothing_assigned_or_everything_handled_it_is_caught_up_at_once() -> None:
    catch_up = CatchUp()
    catch_up.look({}, 5.0)
    assert catch_up.at == 5.0
    catch_up.look({ONE: Place(7, 7), TWO: Place(0, 0)}, 10.0)
    assert catch_up.at == 10.0


def test_under_load_it_is_caught_up_to_the_look_whose_ends_it_has_passed() -> None:
    catch_up = CatchUp()
    looks = [(0, 100), (99, 200), (100, 300), (300, 400)]
    caught_up_at = []
    for number, (position, end) in enumerate(looks, start=1):
        catch_up.look({ONE: Place(position, end)}, 5.0 * number)
        caught_up_at.append(catch_up.at)
    assert caught_up_at == [None, None, 5.0, 15.0]


def test_a_partition_that_moves_in_starts_anew() -> None:
    catch_up = CatchUp()
    catch_up.look({ONE: Place(7, 7)}, 5.0)
    catch_up.look({ONE: Place(7, 7), TWO: Place(0, 100)}, 10.0)
    assert catch_up.at is None
