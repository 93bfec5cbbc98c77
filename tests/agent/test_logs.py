"""Output in numbered chunks: nothing twice, nothing missing, no broken character."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.folder import AttemptFolder
from nodeagent.messages import CHUNKS_PER_BATCH, LOG_CHUNK_BYTES, LogAnswer, LogBatch, encode
from nodeagent.output.logs import OutputTail, cut, decode_text
from nodeagent.shim.replica import OutputFile
from nodeagent.shim.secrets import Mask
from tests.effort import examples


class Store:
    """What the server keeps of one replica's output."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.data = b""

    def take(self, batch: LogBatch) -> LogAnswer:
        assert len(batch.chunks) <= CHUNKS_PER_BATCH
        for chunk in batch.chunks:
            assert 0 < len(chunk.text.encode()) <= LOG_CHUNK_BYTES
            if chunk.sequence == len(self.texts):
                self.texts.append(chunk.text)
                self.data += base64.b64decode(chunk.raw) if chunk.raw else chunk.text.encode()
            else:
                assert self.texts[chunk.sequence] == chunk.text, "the same number, another text"
        return LogAnswer(next_sequence=len(self.texts))

    @property
    def text(self) -> str:
        return "".join(self.texts)


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    return AttemptFolder(str(tmp_path))


def write(folder: AttemptFolder, data: bytes) -> None:
    with open(folder.log(0), "ab") as file:
        file.write(data)


@pytest.mark.parametrize("character", ["é", "漢", "🙂"])
def test_a_character_is_not_torn_apart(character: str) -> None:
    encoded = character.encode()
    for present in range(1, len(encoded)):
        data = b"ab" + encoded[:present]
        assert cut(data, is_last=False) == 2
        assert cut(data, is_last=True) == len(data)
    assert cut(b"ab" + encoded, is_last=False) == 2 + len(encoded)


@pytest.mark.parametrize(("more", "says"), [(b"", False), (b"x", True)])
def test_output_that_is_cut_exactly_at_its_limit_says_so(
    folder: AttemptFolder, more: bytes, says: bool
) -> None:
    output = OutputFile(folder.log(0), 1000, Mask([]))
    for piece in (b"y" * 400, b"y" * 600, more, more):
        output.write(piece)
    output.finish()
    text = Path(folder.log(0)).read_text()
    assert text.startswith("y" * 1000)
    assert text.count("Output limit of 1000 bytes reached") == says


def test_what_never_becomes_a_character_is_not_waited_for() -> None:
    assert cut(b"a\x80\x80\x80", is_last=False) == 4
    assert cut(b"a\xff", is_last=False) == 2
    assert decode_text(b"a\xff\x00b") == "a��b"


def test_replaced_bytes_fit_into_a_chunk_too(folder: AttemptFolder) -> None:
    write(folder, b"\xff" * (LOG_CHUNK_BYTES + 100))
    tail, store = OutputTail(1, 0, folder), Store()
    while (batch := tail.next_batch(is_last=True)) is not None:
        tail.answered(store.take(batch))
    assert store.text == "�" * (LOG_CHUNK_BYTES + 100)


@pytest.mark.parametrize("text", ["\x1b", "\n", "漢", '"', "\xff"])
def test_a_batch_fits_into_a_request(folder: AttemptFolder, text: str) -> None:
    write(folder, text.encode("latin-1" if text == "\xff" else "utf-8") * 600_000)
    tail, store = OutputTail(1, 0, folder), Store()
    while (batch := tail.next_batch(is_last=True)) is not None:
        assert len(json.dumps(encode(batch), ensure_ascii=False).encode()) < 900_000
        tail.answered(store.take(batch))
    assert len(store.text) == 600_000


def test_nothing_to_send_and_no_file_yet(folder: AttemptFolder) -> None:
    tail = OutputTail(1, 0, folder)
    assert tail.next_batch(is_last=False) is None
    assert not tail.has_more()
    write(folder, b"")
    assert tail.next_batch(is_last=True) is None


def test_sent_again_it_is_the_same_though_more_was_written(folder: AttemptFolder) -> None:
    write(folder, b"one\n")
    tail, store = OutputTail(1, 0, folder), Store()
    batch = tail.next_batch(is_last=False)
    assert batch is not None
    store.take(batch)  # The answer is lost.
    write(folder, b"two\n")
    for again in (tail, OutputTail(1, 0, folder)):  # The same agent, and the next one.
        repeated = again.next_batch(is_last=False)
        assert repeated is not None
        assert [chunk.text for chunk in repeated.chunks] == ["one\n"]
    again.answered(store.take(repeated))
    last = again.next_batch(is_last=True)
    assert last is not None
    again.answered(store.take(last))
    assert store.text == "one\ntwo\n"
    assert not again.has_more()


def test_half_a_batch_may_be_stored(folder: AttemptFolder) -> None:
    write(folder, b"x" * (LOG_CHUNK_BYTES * 3))
    tail = OutputTail(1, 0, folder)
    tail.next_batch(is_last=True)
    tail.answered(LogAnswer(next_sequence=2))
    batch = tail.next_batch(is_last=True)
    assert batch is not None
    assert [chunk.sequence for chunk in batch.chunks] == [2]


def test_a_full_server_gets_no_more(folder: AttemptFolder) -> None:
    write(folder, b"x" * LOG_CHUNK_BYTES)
    tail = OutputTail(1, 0, folder)
    tail.next_batch(is_last=False)
    tail.answered(LogAnswer(next_sequence=1, full=True))
    write(folder, b"more")
    for same in (tail, OutputTail(1, 0, folder)):
        assert same.next_batch(is_last=True) is None
        assert not same.has_more()


def test_a_server_that_forgot_what_it_confirmed_does_not_hold_up_the_node(folder: AttemptFolder) -> None:
    write(folder, b"one")
    tail, store = OutputTail(1, 0, folder), Store()
    batch = tail.next_batch(is_last=False)
    assert batch is not None
    tail.answered(store.take(batch))
    write(folder, b"two")
    tail.next_batch(is_last=True)
    tail.answered(LogAnswer(next_sequence=0))
    assert not tail.has_more()


@settings(max_examples=examples(40))
@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)), min_size=1, max_size=12
    ),
    accidents=st.lists(st.sampled_from(["", "answer lost", "agent dies", "both"]), min_size=12, max_size=12),
)
def test_whatever_is_lost_the_text_is_whole(
    pieces: list[bytes], accidents: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = AttemptFolder(str(tmp_path_factory.mktemp("attempt")))
    tail, store = OutputTail(1, 0, folder), Store()
    for number, piece in enumerate([*pieces, b""]):
        write(folder, piece)
        accident = accidents[number % len(accidents)]
        batch = tail.next_batch(is_last=number == len(pieces))
        if batch is not None:
            answer = store.take(batch)
            if accident not in ("answer lost", "both"):
                tail.answered(answer)
        if accident in ("agent dies", "both"):
            tail = OutputTail(1, 0, folder)
    while (batch := tail.next_batch(is_last=True)) is not None:
        tail.answered(store.take(batch))
    assert store.text == decode_text(b"".join(pieces))
    assert store.data == b"".join(pieces)
