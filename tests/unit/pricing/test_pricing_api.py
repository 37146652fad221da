"""The examples of pricing's API are true."""

from services.pricing.api.schemas import PriceBookIn, QuoteIn
from services.pricing.domain.book import build_book
from services.pricing.domain.quotes import quote
from shared.money import parse_cny
from tests.support.books import pricer


def test_the_example_of_a_book_can_be_published() -> None:
    (example,) = PriceBookIn.model_json_schema()["examples"]
    book = build_book(PriceBookIn.model_validate(example).document())
    assert book.skus["ascend-910b"].unit_price_micro == parse_cny("1.1952")


def test_what_a_book_was_given_when_published_counts_for_nothing() -> None:
    (example,) = PriceBookIn.model_json_schema()["examples"]
    published = PriceBookIn.model_validate({**example, "version": 7, "published_at": "2026-11-20T08:00:00Z"})
    assert published.document() == PriceBookIn.model_validate(example).document()


def test_the_example_of_a_quote_is_the_case_study() -> None:
    (example,) = QuoteIn.model_json_schema()["examples"]
    wanted = [item.item() for item in QuoteIn.model_validate(example).items]
    assert quote(pricer(), wanted).total_micro == parse_cny("2006.40")
