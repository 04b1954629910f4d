"""When an answer is complete, token by token: at its last one, neither earlier nor later."""

from __future__ import annotations

import numpy as np
import pytest

from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Commit
from entropycache.engine.stopping import StopCriteria
from entropycache.io.tokenizer import Tokenizer

MASK, END, OTHER_END = 0, 99, 98
PROMPT = 2


class Letters:
    """A tokenizer of letters: 1 is a, 2 is b."""

    def convert_ids_to_tokens(self, token_id):
        return str(token_id)

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(96 + i) for i in ids)


TEXT = Tokenizer(Letters(), MASK, frozenset({END, OTHER_END}), 100)


def canvas(masks: int = 6) -> Canvas:
    return Canvas(np.array([5] * PROMPT + [MASK] * masks), MASK, PROMPT)


def commit(criteria: StopCriteria, sequence: Canvas, **tokens: int) -> bool:
    """Commit tokens at places of the answer, ``p0`` the first; whether decoding ends then."""
    positions = np.array([PROMPT + int(name[1:]) for name in tokens])
    done = Commit(positions, np.array(list(tokens.values())), np.arange(len(positions)))
    sequence.apply(done)
    criteria.note(done)
    return criteria.reached(sequence)


def test_a_limit_ends_decoding_with_its_last_token():
    criteria, sequence = StopCriteria(TEXT, limit=3), canvas()
    assert not commit(criteria, sequence, p0=1)
    assert not commit(criteria, sequence, p2=3)
    assert commit(criteria, sequence, p1=2)
    assert criteria.answer(sequence).tolist() == [1, 2, 3]
    short = canvas()
    short_of_it = StopCriteria(TEXT, limit=3)
    assert not commit(short_of_it, short, p0=1, p1=2), "two of three"


def test_text_up_to_the_limit_is_settled_at_once_and_may_end_as_a_stop_string_starts():
    criteria, sequence = StopCriteria(TEXT, ("bc",), limit=2), canvas()
    commit(criteria, sequence, p0=1)
    assert criteria.settled(sequence) == "a"
    commit(criteria, sequence, p1=2)
    assert criteria.settled(sequence) == "ab"
    unlimited, other = StopCriteria(TEXT, ("bc",)), canvas()
    commit(unlimited, other, p0=1, p1=2)
    assert unlimited.settled(other) == "a"


@pytest.mark.parametrize("end", [END, OTHER_END])
@pytest.mark.parametrize("place", range(5))
def test_an_end_token_ends_decoding_where_it_stands_as_soon_as_all_before_it_is_there(place, end):
    criteria, sequence = StopCriteria(TEXT), canvas()
    for i in range(place):
        assert not commit(criteria, sequence, **{f"p{i}": 1 + i})
    assert commit(criteria, sequence, **{f"p{place}": end})
    assert criteria.answer(sequence).tolist() == list(range(1, 1 + place))


@pytest.mark.parametrize("place", [1, 2, 3])
def test_an_end_token_committed_ahead_waits_for_those_before_it(place):
    criteria, sequence = StopCriteria(TEXT), canvas()
    assert not commit(criteria, sequence, **{f"p{place}": END})
    for i in range(place - 1):
        assert not commit(criteria, sequence, **{f"p{i}": 1})
    assert commit(criteria, sequence, **{f"p{place - 1}": 1})


def test_a_late_end_token_does_not_end_what_is_decoded_whole():
    criteria, sequence = StopCriteria(TEXT, early=False), canvas()
    assert not commit(criteria, sequence, p0=END)
    assert criteria.cut is None, "nothing is cut off either"


def test_nothing_behind_the_leftmost_of_all_end_tokens_is_wanted():
    criteria, sequence = StopCriteria(TEXT), canvas()
    assert criteria.cut is None
    commit(criteria, sequence, p3=END, p4=1, p5=OTHER_END)
    assert criteria.cut == PROMPT + 3
    commit(criteria, sequence, p1=OTHER_END)
    assert criteria.cut == PROMPT + 1
    commit(criteria, sequence, p2=END)
    assert criteria.cut == PROMPT + 1


@pytest.mark.parametrize("early", [True, False])
def test_the_last_allowed_step_is_the_last(early):
    criteria, sequence = StopCriteria(TEXT, early=early, max_steps=2), canvas()
    assert not commit(criteria, sequence, p0=1)
    assert commit(criteria, sequence, p1=1)


def test_a_limit_of_steps_ends_the_loop_after_so_many(engines):
    from entropycache import GenerationConfig
    from entropycache.engine.loop import decode

    engine = engines("llada")
    request = engine.request(0, [1, 2], GenerationConfig(gen_length=8, tokens_per_step=1))
    request.stopping.max_steps = 3
    assert len(list(decode([request], engine.runner))) == 3
    assert request.complete().forwards == 3
