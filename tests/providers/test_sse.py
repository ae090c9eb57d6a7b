"""Events from bytes, by the WHATWG rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import ModelProtocolError
from app.providers.sse import ServerSentEvent, SseDecoder


def decode(*reads: bytes, max_event: int = 1000) -> list[ServerSentEvent]:
    decoder = SseDecoder(max_event)
    return [event for read in reads for event in decoder.feed(read)] + list(decoder.close())


@pytest.mark.fault("U31")
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_lines_end_in_any_of_the_three_ways(end: bytes) -> None:
    body = end.join([b"data: one", b"", b"data: two", b"", b""])

    assert [event.data for event in decode(body)] == [b"one", b"two"]


@pytest.mark.fault("U31")
def test_a_line_end_cut_between_two_reads_is_one_line_end() -> None:
    assert [event.data for event in decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n")] == [b"a\nb"]


@pytest.mark.fault("U31")
def test_an_event_is_given_out_at_a_carriage_return_without_waiting_for_what_follows() -> None:
    decoder = SseDecoder(1000)

    assert [event.data for event in decoder.feed(b"data: now\r\n\r")] == [b"now"]
    assert list(decoder.feed(b"\n")) == []


@pytest.mark.fault("U33")
def test_data_lines_of_one_event_are_joined_and_one_space_is_dropped() -> None:
    assert [event.data for event in decode(b"data:a\ndata:  b\ndata\n\n")] == [b"a\n b\n"]


@pytest.mark.fault("U33")
def test_the_name_belongs_to_its_event_only_and_unknown_fields_to_none() -> None:
    events = decode(b"event: error\nid: 4\nretry: 10\ndata: x\n\ndata: y\n\nevent: lost\n\ndata: z\n\n")

    assert [(event.event, event.data) for event in events] == [("error", b"x"), ("", b"y"), ("", b"z")]


@pytest.mark.fault("U33")
def test_a_byte_order_mark_is_dropped_at_the_beginning_only() -> None:
    mark = b"\xef\xbb\xbf"

    assert [event.data for event in decode(mark[:2], mark[2:] + b"data: " + mark + b"\n\n")] == [mark]


@pytest.mark.fault("U32")
def test_comments_and_empty_lines_are_no_events() -> None:
    assert decode(b": waiting\n\n\n:\n\nid: 3\n\n") == []


@pytest.mark.fault("U34", "U35")
def test_characters_are_neither_line_ends_nor_broken_by_reads() -> None:
    text = "one\u2028two\u0085three\x0bfour 深"
    body = f"data: {text}\n\n".encode()

    [event] = decode(*(body[at : at + 1] for at in range(len(body))))

    assert event.data.decode() == text


@pytest.mark.fault("U31")
def test_what_the_end_leaves_unterminated_is_given_out_and_marked() -> None:
    assert decode(b"data: a\n\ndata: b\ndata: c") == [
        ServerSentEvent(b"a"),
        ServerSentEvent(b"b\nc", cut=True),
    ]


def test_lines_that_no_event_stream_has_are_noticed() -> None:
    sane, strange = SseDecoder(100), SseDecoder(100)
    list(sane.feed(b"id: 1\nretry: 5\nevent: x\n: note\ndata: y\n\n"))
    list(strange.feed(b"Bad Gateway\n"))

    assert (sane.strange, strange.strange) == (False, True)


@pytest.mark.fault("U37")
@pytest.mark.parametrize(
    "reads",
    [
        [b"data: " + b"x" * 60],
        [b"data: " + b"x" * 60 + b"\n"],
        [b"data:" + b"x" * 60 + b"\n"],
        [b"data: 1234567890\n"] * 6,
        [b"x"] * 60,
    ],
    ids=["an unfinished line", "a line", "a line without a space", "many lines", "a line of small reads"],
)
def test_an_event_beyond_the_cap_is_an_error_and_not_a_growing_buffer(reads: list[bytes]) -> None:
    with pytest.raises(ModelProtocolError, match="larger than the 50 bytes") as caught:
        decode(*reads, max_event=50)
    assert caught.value.code == "too_large"


@pytest.mark.fault("U37")
def test_many_small_events_are_not_one_large_one() -> None:
    assert len(decode(b"data: 1234567890\n\n" * 100, max_event=50)) == 100


@given(
    lines=st.lists(st.sampled_from([b"data: a", b"data:", b"event: e", b": c", b"", b"junk", b"data: \xe6\xb7\xb1"])),
    ends=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 120), max_size=8),
)
def test_how_the_bytes_are_cut_into_reads_changes_nothing(lines: list[bytes], ends: bytes, cuts: list[int]) -> None:
    body = ends.join(lines)
    places = sorted(min(cut, len(body)) for cut in cuts)
    reads = [body[start:stop] for start, stop in zip([0, *places], [*places, len(body)], strict=True)]

    assert decode(*reads) == decode(body)
