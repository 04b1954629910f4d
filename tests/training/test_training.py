"""How the embedded model is made: corpus, objectives, and a trainer that resumes exactly."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("reasoning_gym")

from entropycache.cli import app
from entropycache.engine.engine import load
from entropycache.errors import OptionError
from entropycache.io.problems import final_answer, held_out, task_names
from entropycache.models.config import ModelConfig
from entropycache.models.full_pass import hidden_states
from entropycache.models.random_init import random_network
from entropycache.training import command, corpus, drills
from entropycache.training import trainer as trainer_module
from entropycache.training.batches import (
    LENGTHS,
    ROUND,
    batches,
    close_lengths,
    encode,
    fixed_shapes,
)
from entropycache.training.calculations import calculations
from entropycache.training.losses import loss
from entropycache.training.objective import (
    FAR_WEIGHT,
    TAIL,
    TAIL_WEIGHT,
    Batch,
    Objective,
    ask,
)
from entropycache.training.optimizers import Muon, orthogonal
from entropycache.training.recipe import RECIPES
from entropycache.training.settings import Stage, TrainConfig
from entropycache.training.tasks import TASKS
from entropycache.training.trainer import Trainer

SHAPE = ModelConfig(32, 2, 2, 2, 16, 64, 2048, 1e-5, 10000.0, 2048)
MASK = 1


@pytest.fixture(scope="module")
def tokenizer():
    return load("tiny", device="cpu").tokenizer.backend


def value(calculation: str) -> Fraction:
    return eval(re.sub(r"\d+(\.\d+)?", r'Fraction("\g<0>")', calculation))


@pytest.mark.parametrize("task", TASKS)
def test_worked_responses_end_in_the_answer_and_their_sums_are_right(task):
    for seed in corpus.VALIDATION_SEEDS[:300]:
        item = corpus.problem(task, seed, corpus.VALIDATION_SEEDS)
        *lines, last = item.response.splitlines()
        assert last == f"#### {item.answer}" and final_answer(item.response) == item.answer
        if task in ("chain_sum", "products", "simple_equations"):
            for line in lines:
                assert len({value(part) for part in line.split(" = ")}) == 1, line
            assert line.endswith(f" = {item.answer}")


def test_the_numbers_of_two_relatives_and_one_gender_determine_what_they_are_to_each_other():
    answers: dict[tuple[str, ...], set[str]] = {}
    for item in held_out("family_relationships"):
        people, pair, _ = item.response.splitlines()
        names = dict(person.split() for person in people.removeprefix("story: ").split(", "))
        first, second = pair.removeprefix("asked: ").split(", ")
        start, number, gender = first.split()
        goal, other = second.split()
        story, asked = (re.findall(r"[A-Z]\w+", part) for part in item.question.split("\n\n"))
        assert [*names] == [*dict.fromkeys(name for name in story if name != "They")]
        assert [name for name in asked if name in names] == [start, goal]
        assert [*names.values()] == ["1", "2", "3", "4"]
        assert (names[start], names[goal]) == (number, other)
        answers.setdefault((number, other, gender), set()).add(item.answer)
    assert len(answers) > 9 and all(len(found) == 1 for found in answers.values())


def test_nearly_all_word_problems_become_one_operation_a_line():
    prose = 0
    for seed in corpus.VALIDATION_SEEDS[:1000]:
        item = corpus.problem("gsm_symbolic", seed, corpus.VALIDATION_SEEDS)
        *lines, _ = item.response.splitlines()
        number = r"-?\d+(?:\.\d+|/\d+)?"
        if not all(re.fullmatch(rf"{number} [-+*/] {number} = {number}", line) for line in lines):
            prose += 1
            continue
        for line in lines:
            calculation, result = line.split(" = ")
            assert value(result) in (value(calculation), value(calculation) // 1), line
        assert value(result) == value(item.answer)
    assert prose < 60


@pytest.mark.parametrize(
    ("solution", "answer", "lines"),
    [
        ("9 skeins per shawl + 4 skeins per hat = 13 skeins.", "13", ["9 + 4 = 13"]),
        ("It is $1,000 - €300 - £50 = $650.", "650", ["1000 - 300 = 700", "700 - 50 = 650"]),
        ("6 days/week * 2 weeks/month = 12 days/month", "12", ["6 * 2 = 12"]),
        ("He has 5 left, 2(62+18) = 160", "160", ["62 + 18 = 80", "2 * 80 = 160"]),
        ("half * 188 beetles = 94", "94.0", ["188 / 2 = 94"]),
        ("3/4 x 64 = 48", "48", ["64 / 4 = 16", "16 * 3 = 48"]),
        ("6 x 0.6666666666666666 = 4.0", "4", ["6 / 3 = 2", "2 * 2 = 4"]),
        ("$220 * 40% = $88", "88", ["220 * 40 = 8800", "8800 / 100 = 88"]),
        ("195 * 12 = 2340", "2,340", ["195 * 10 = 1950", "195 * 2 = 390", "1950 + 390 = 2340"]),
        ("17*0.5=8 tubes", "8", ["17 / 2 = 8"]),
        ("3 - 5 = -2\n-2 is 4 - 6 = -2", "-2", ["3 - 5 = -2", "4 - 6 = -2"]),
        ("2 + 2 = 4\n2 + 2 = 4\n4 - 1 = 3\n2 + 2 = 4", "4", ["2 + 2 = 4"]),
        (
            "She has 70 + 48 + T = 118 + T = 193 toys.\nThus T = 193 - 118 = 75",
            "75",
            ["70 + 48 = 118", "193 - 118 = 75"],
        ),
        ("1 * 4 = 4", "4", None),
        ("4 / 0 = 0", "0", None),
        ("2 + 2 = 5", "5", None),
        ("2 + 2 = 4", "5", None),
        ("He has four.", "4", None),
    ],
)
def test_solutions_in_prose_become_their_calculations(solution, answer, lines):
    assert calculations(solution, answer) == lines


def test_seed_ranges_never_meet_and_held_out_questions_stay_out_of_training():
    ranges = (corpus.TRAINING_SEEDS, corpus.VALIDATION_SEEDS, corpus.EVALUATION_SEEDS)
    for a in ranges:
        assert all(not set((a[0], a[-1])) & set(b) for b in ranges if b is not a)
    held = corpus.held_out_questions()
    mixture = corpus.Mixture({"chain_sum": 1.0}, few_shot=0.2)
    drawn = list(corpus.draw_chunk(mixture, 0, 2000, corpus.TRAINING_SEEDS))
    questions = {turn for example in drawn for turn in example.turns[::2]}
    assert len(questions) > 1500
    assert not questions & held


def test_the_shipped_problems_are_what_the_generator_draws_now():
    assert set(task_names()) == set(TASKS)
    assert task_names()[0] == "gsm_symbolic"
    for task in TASKS:
        shipped = held_out(task)
        assert len(shipped) == (500 if task == "gsm_symbolic" else 200)
        assert len({p.question for p in shipped}) == len(shipped)
        drawn = corpus.evaluation_set(task)
        assert [p.question for p in shipped] == [p.question for p in drawn]
        assert [p.answer for p in shipped] == [p.answer for p in drawn]
        assert [p.response for p in shipped] == [p.response for p in drawn]
        assert all(p.solved_by(p.response) for p in shipped)


def test_a_chunk_depends_on_its_index_alone():
    mixture = corpus.Mixture({name: 1.0 for name in TASKS}, few_shot=0.3)
    first, again = (list(corpus.draw_chunk(mixture, 3, 50, corpus.TRAINING_SEEDS)) for _ in "ab")
    other = list(corpus.draw_chunk(mixture, 4, 50, corpus.TRAINING_SEEDS))
    assert first == again != other
    assert max(len(example.turns) for example in first) > 4


def test_brevity_keeps_answers_as_likely_as_they_are_short():
    plain = corpus.Mixture({"gsm_symbolic": 1.0}, few_shot=0.0)
    lengths = []
    for mixture in (plain, replace(plain, brevity=40.0)):
        drawn = list(corpus.draw_chunk(mixture, 0, 400, corpus.TRAINING_SEEDS))
        lengths.append([len(example.turns[-1]) for example in drawn])
    weights = [math.exp(-n / 40) for n in lengths[0]]
    for least, most in ((0, 40), (40, 80), (80, 120)):
        inside = [w for n, w in zip(lengths[0], weights, strict=True) if least <= n < most]
        share = sum(least <= n < most for n in lengths[1]) / len(lengths[1])
        assert abs(share - sum(inside) / sum(weights)) < 0.12


def test_drills_are_right_and_no_held_out_question_is_among_them():
    mixture = corpus.Mixture({name: 1.0 for name in drills.DRILLS}, few_shot=0.0)
    drawn = list(corpus.draw_chunk(mixture, 0, 600, corpus.TRAINING_SEEDS))
    assert {example.task for example in drawn} == set(drills.DRILLS)
    for example in drawn:
        question, response = example.turns
        assert question not in corpus.held_out_questions()
        if example.task == drills.COPYING:
            assert response == "#### " + question.removeprefix("Copy this list: ")
        elif example.task == drills.VALUES:
            given, asked = question.split("\nGive each value:\n")
            *lines, last = response.splitlines()
            assert sorted(given.splitlines()) == sorted(lines)
            for line, key in zip(lines, asked.splitlines(), strict=True):
                found = re.fullmatch(rf"{re.escape(key)}(?:| |: | = | has )(\d+)", line)
                assert found
            assert last == f"#### {found[1]}"
        elif example.task == drills.SHEETS:
            *lines, last = response.splitlines()
            assert [line.split(" = ")[0] for line in lines] == question.splitlines()[1:]
            for step, result in (line.split(" = ") for line in lines):
                assert eval(step) == int(result)
            assert last == f"#### {result}"
        else:
            step, *parts = response.splitlines()[0].split(" = ")
            assert step in question
            assert {eval(step), *map(eval, parts)} == {int(final_answer(response))}


@pytest.mark.parametrize("cut", [fixed_shapes, close_lengths])
def test_batches_are_of_one_length_and_filled_with_end_tokens(tokenizer, cut):
    mixture = corpus.Mixture({name: 1.0 for name in TASKS}, few_shot=0.3, long_tail=0.5)
    drawn = list(corpus.draw_chunk(mixture, 0, 60, corpus.TRAINING_SEEDS))
    encoded = [e for e in (encode(tokenizer, x) for x in drawn) if e]
    end = tokenizer.eos_token_id
    assert len(encoded) > 50
    for example in encoded:
        assert example.ids[-1] == end
        assert end not in example.ids[: example.answers[-1][0]]
    made = list(batches(encoded, 1024, random.Random(0), end, cut))
    wanted = {tuple(example.ids): example for example in encoded}
    found = 0
    for batch in made:
        length = batch.ids.shape[1]
        assert 2 * batch.ids.numel() <= max(1024, 2 * length)
        assert length in LENGTHS if cut is fixed_shapes else length % ROUND == 0
        assert (batch.first is None) == (cut is close_lengths)
        numbers = batch.answers[batch.answers > 0].unique()
        assert torch.equal(numbers, torch.arange(1, len(numbers) + 1))
        for row, answers in zip(batch.ids.tolist(), batch.answers.tolist(), strict=True):
            key = next(k for k in wanted if list(k) == row[: len(k)])
            assert set(row[len(key) :]) <= {end}
            runs = [(n, len(list(run))) for n, run in groupby(answers)]
            spans = [b - a for a, b in wanted[key].answers]
            spans[-1] += length - len(key)
            assert [size for n, size in runs if n] == spans
            found += 1
    if cut is fixed_shapes:
        assert 0 < found <= len(encoded)
        assert len({(b.ids.shape, b.first) for b in made}) == len({b.ids.shape[1] for b in made})
    else:
        assert found == len(encoded), "every example is used"


def test_the_answers_of_worked_examples_are_found_in_the_prompt(tokenizer):
    mixture = corpus.Mixture({name: 1.0 for name in TASKS}, few_shot=1.0, max_shots=4)
    for example in corpus.draw_chunk(mixture, 0, 40, corpus.TRAINING_SEEDS):
        found = encode(tokenizer, example)
        assert found is not None and len(found.answers) == len(example.turns) // 2
        for (begin, end), answer in zip(found.answers, example.turns[1::2], strict=True):
            text = tokenizer.decode(found.ids[begin:end])
            assert text.removesuffix(tokenizer.eos_token * example.tail) == answer


def some_batch(count: int = 6, length: int = 64) -> Batch:
    """Each sequence a short prompt and answer, then another prompt and the answer to learn."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(10, 2048, (count, length), generator=generator)
    answers = torch.zeros_like(ids)
    for i, start in enumerate(torch.randint(33, 50, (count,), generator=generator).tolist()):
        answers[i, 12:20] = 2 * i + 1
        answers[i, start:] = 2 * i + 2
    return Batch(ids, answers)


@pytest.mark.parametrize("objective", [Objective.MASKED, Objective.MASKED_INVERSE])
def test_complementary_masks_ask_for_every_answer_token_once_and_never_for_the_prompt(objective):
    batch = some_batch()
    question = ask(batch, objective, MASK, torch.Generator().manual_seed(0))
    first, second = question.asked.chunk(2)
    assert torch.equal(first ^ second, batch.answers > 0) and not (first & second).any()
    assert torch.equal(question.inputs == MASK, question.asked)
    assert torch.equal(question.targets[question.asked], batch.ids.repeat(2, 1)[question.asked])


def test_the_inverse_weight_is_one_over_the_ratio():
    batch = some_batch(4, 2048)
    batch.answers[:, 12:1000] = batch.answers[:, 12:13]  # long enough for its ratio to be counted
    batch.answers[:, 1000:1040] = 0
    question = ask(batch, Objective.MASKED_INVERSE, MASK, torch.Generator().manual_seed(0))
    answers = batch.answers.repeat(2, 1)
    drawn = set()
    for half in (slice(0, 4), slice(4, 8)):
        for number in range(1, 9):
            inside = answers[half] == number
            ratio = question.asked[half][inside].float().mean()
            weight = question.weights[half][inside].unique()
            torch.testing.assert_close(0.5 / weight, ratio[None], rtol=0, atol=0.04)
            drawn.add(round(ratio.item(), 6))
    assert len(drawn) == 16, "each answer has a ratio of its own"


@pytest.mark.parametrize("first", [None, 8])
def test_no_answer_token_sees_itself_or_what_is_right_of_it_in_the_warm_start(first):
    """Changing the token at a position changes no prediction at or before it, and some after it."""
    network = random_network(SHAPE, 0)
    batch = some_batch(1)
    start = int((batch.answers == 2).nonzero()[0, 1])

    def predictions(changed: int | None):
        ids = batch.ids.clone()
        if changed is not None:
            ids[0, changed] = (ids[0, changed] + 7) % 2000 + 10
        asked = Batch(ids, batch.answers, first)
        question = ask(asked, Objective.AUTOREGRESSIVE, MASK, torch.Generator())
        hidden = hidden_states(network, question.inputs, question.positions, question.visible)
        assert question.visible is not None
        assert len(question.positions) == 64 + (56 if first else int((batch.answers > 0).sum()))
        assert torch.equal(question.targets, ids[:, question.positions])
        return hidden[question.asked.flatten()], question.positions[question.asked[0]]

    original, positions = predictions(None)
    assert positions.tolist() == [*range(12, 20), *range(start, 64)]
    for changed in (12, 19, start, 55, 63):
        other, _ = predictions(changed)
        moved = (other - original).abs().amax(1) > 1e-6
        assert not moved[positions <= changed].any()
        assert moved[positions > changed].all()
    other, _ = predictions(3)
    assert ((other - original).abs().amax(1) > 1e-6).all(), "the first question is seen by all"
    other, _ = predictions(start - 1)
    moved = (other - original).abs().amax(1) > 1e-6
    assert torch.equal(moved, positions >= start), "the second question, by its answer alone"


def test_each_question_of_a_chat_sees_itself_whole_in_the_warm_start():
    batch = some_batch(1)
    question = ask(batch, Objective.AUTOREGRESSIVE, MASK, torch.Generator())
    assert question.visible is not None
    start = int((batch.answers == 2).nonzero()[0, 1])
    seen = question.visible[0, 0, :64, :64]
    assert torch.equal(seen[3].nonzero().squeeze(1), torch.arange(12))
    assert torch.equal(seen[15].nonzero().squeeze(1), torch.arange(16))
    assert torch.equal(seen[25].nonzero().squeeze(1), torch.arange(start))
    assert torch.equal(seen[start + 2].nonzero().squeeze(1), torch.arange(start + 3))
    assert not question.visible[0, 0, :64, 64:].any(), "no token sees a mask"


def continued(batch: Batch, seed: int, count: int):
    """A continuation, and the cut of each of its sequences: the first position asked for."""
    question = ask(batch, Objective.CONTINUATION, MASK, torch.Generator().manual_seed(seed))
    places = question.positions.expand(count, -1)
    cuts = torch.where(question.asked, places, 10_000).amin(1).tolist()
    masks = (len(question.positions) - batch.ids.shape[1]) // 2
    return question, cuts, masks


@pytest.mark.parametrize(("seed", "first"), [(0, None), (1, None), (2, 8), (3, 8)])
def test_the_masks_of_a_continuation_are_those_of_the_canvas_known_up_to_the_cut(seed, first):
    network = random_network(SHAPE, 0)
    batch = replace(some_batch(), first=first)
    question, cuts, masks = continued(batch, seed, 6)
    hidden = hidden_states(network, question.inputs, question.positions, question.visible)
    hidden = hidden.view(6, -1, SHAPE.hidden_size)
    places = question.positions[64 : 64 + masks]
    for row, cut in enumerate(cuts):
        assert batch.answers[row, cut] == 2 * row + 2, "the last answer alone is asked for"
        canvas = batch.ids[row : row + 1].clone()
        canvas[:, cut:] = MASK
        expected = hidden_states(network, canvas, torch.arange(64), None)
        found = hidden[row, 64 : 64 + masks][places >= cut]
        torch.testing.assert_close(found, expected[cut:], atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(hidden[row, :cut], expected[:cut], atol=2e-5, rtol=1e-4)
    assert len(set(cuts)) > 3


@pytest.mark.parametrize("first", [None, 8])
def test_a_continuation_asks_for_each_token_from_all_before_it_and_masks_behind(first):
    """Changing the token at a position changes no prediction at or before it, and every later one
    of the stream that has seen it.
    """
    network = random_network(SHAPE, 0)
    batch = replace(some_batch(1), first=first)
    question, (cut,), masks = continued(batch, 4, 1)
    assert 33 < cut < 62
    asked, places = question.asked[0], question.positions
    canvas, ahead = slice(64, 64 + masks), slice(64 + masks, None)
    assert places[canvas][asked[canvas]].tolist() == list(range(cut, 64))
    assert places[ahead][asked[ahead]].tolist() == list(range(cut + 1, 64))
    assert not asked[:64].any() and (question.inputs[0, 64:] == MASK).all()
    assert torch.equal(question.targets[0], batch.ids[0, places])
    near = (places == cut) | (torch.arange(len(places)) >= 64 + masks)
    assert torch.equal(question.far[0][asked], ~near[asked])
    assert torch.equal(question.weights[0][asked], torch.where(near, 1.0, FAR_WEIGHT)[asked])
    for row in range(64 + masks, len(places)):
        if asked[row]:
            seen = question.visible[0, 0, row]
            assert seen[:64].nonzero().squeeze(1).tolist() == list(range(places[row]))
            assert places[canvas][seen[canvas]].tolist() == list(range(places[row] + 1, 64))
            assert places[ahead][seen[ahead]].tolist() == [places[row]], "itself"

    def predictions(ids: torch.Tensor):
        other = ask(
            replace(batch, ids=ids),
            Objective.CONTINUATION,
            MASK,
            torch.Generator().manual_seed(4),
        )
        return hidden_states(network, other.inputs, other.positions, other.visible)

    original = predictions(batch.ids)
    for changed in (cut, (cut + 64) // 2, 62):
        ids = batch.ids.clone()
        ids[0, changed] = (ids[0, changed] + 7) % 2000 + 10
        moved = (predictions(ids) - original).abs().amax(1) > 1e-6
        assert not moved[canvas][asked[canvas]].any()
        assert torch.equal(moved[ahead][asked[ahead]], places[ahead][asked[ahead]] > changed)


@pytest.mark.parametrize("objective", [Objective.MASKED_INVERSE, Objective.PREFIX])
def test_masks_behind_another_of_their_answer_are_far(objective):
    batch = some_batch()
    question = ask(batch, objective, MASK, torch.Generator().manual_seed(0))
    answers = batch.answers.repeat(2, 1)
    for row in range(12):
        for number in answers[row].unique().tolist():
            asked = (question.asked[row] & (answers[row] == number)).nonzero().squeeze(1).tolist()
            assert question.far[row][answers[row] == number].nonzero().numel() == len(asked[1:])
            assert question.far[row, asked[1:]].all()
    assert not ask(batch, Objective.AUTOREGRESSIVE, MASK, torch.Generator()).far.any()


def test_prefixes_are_known_up_to_a_cut_masked_in_part_and_then_whole():
    batch = some_batch(4, 512)
    question = ask(batch, Objective.PREFIX, MASK, torch.Generator().manual_seed(0))
    assert question.visible is None and not question.asked[(batch.answers == 0).repeat(2, 1)].any()
    assert torch.equal(question.inputs == MASK, question.asked)
    cuts = []
    for half in (slice(0, 4), slice(4, 8)):
        for number in range(1, 9):
            inside = batch.answers == number
            asked = question.asked[half][inside]
            weights = question.weights[half][inside]
            ahead = int((weights != FAR_WEIGHT).sum())
            assert asked[ahead:].all() and (weights[ahead:] == FAR_WEIGHT).all()
            known = int(asked.nonzero()[0]) if asked.any() else len(asked)
            assert ahead - known <= 32, "masks in part within 32 positions at most"
            cuts.append(known / len(asked))
    assert min(cuts) < 0.2 and max(cuts) > 0.8


@pytest.mark.parametrize("objective", list(Objective))
def test_long_tails_count_little_and_do_not_lessen_what_the_rest_counts(objective):
    varied = some_batch(2, 512)
    ended = replace(varied, ids=varied.ids.clone())
    ended.ids[:, 80:] = 3
    plain, tailed = (
        ask(batch, objective, MASK, torch.Generator().manual_seed(3)) for batch in (varied, ended)
    )
    counts = torch.where(plain.positions < 80 + TAIL, 1.0, TAIL_WEIGHT).expand(plain.asked.shape)
    assert torch.equal(plain.asked, tailed.asked)
    share = counts[plain.asked].mean()
    assert share < 0.4, "most of what is asked for is tail"
    torch.testing.assert_close(tailed.weights, plain.weights * counts / share)


def test_the_loss_is_the_cross_entropy_of_the_asked_rows():
    network = random_network(SHAPE, 0)
    question = ask(some_batch(), Objective.MASKED, MASK, torch.Generator().manual_seed(0))
    hidden = hidden_states(network, question.inputs, question.positions, question.visible)
    every = network.logits(hidden).log_softmax(-1).gather(1, question.targets.flatten()[:, None])
    expected = -every.flatten()[question.asked.flatten()].mean()
    torch.testing.assert_close(loss(network, hidden[question.rows], question), expected)
    asked = hidden_states(network, question.inputs, question.positions, None, lambda: question.rows)
    torch.testing.assert_close(asked, hidden[question.rows])
    sharp = network.logits(hidden) * torch.where(question.far.flatten(), 1.5, 1.0)[:, None]
    every = sharp.log_softmax(-1).gather(1, question.targets.flatten()[:, None])
    expected = -every.flatten()[question.asked.flatten()].mean()
    torch.testing.assert_close(loss(network, asked, question, far_sharpness=1.5), expected)


def config(steps: int) -> TrainConfig:
    mixture = corpus.Mixture({"chain_sum": 1.0, "products": 1.0}, few_shot=0.0, long_tail=0.0)
    stages = (
        Stage(0, mixture, (Objective.AUTOREGRESSIVE,)),
        Stage(2, mixture, (Objective.AUTOREGRESSIVE, Objective.MASKED)),
        Stage(4, mixture, (Objective.MASKED_INVERSE,)),
    )
    return TrainConfig(SHAPE, stages, steps, warmup=2, decay=2, batch_tokens=512, chunk_examples=12)


def weights_after(trainer: Trainer) -> dict[str, torch.Tensor]:
    trainer.run(every=3, evaluate=lambda network: {"accuracy": 0.5})
    return {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}


def test_muon_moves_along_the_orthogonal_factor_of_the_momentum():
    generator = torch.Generator().manual_seed(0)
    for shape in ((6, 6), (4, 12), (12, 4)):
        matrix = torch.randn(shape, generator=generator)
        u, _, v = torch.linalg.svd(matrix, full_matrices=False)
        close = orthogonal(matrix, torch.float32)
        singular = torch.linalg.svdvals(close)
        assert singular.min() > 0.6 and singular.max() < 1.3
        assert torch.cosine_similarity(close.flatten(), (u @ v).flatten(), dim=0) > 0.97
        parameter = torch.nn.Parameter(torch.zeros(shape))
        optimizer = Muon([parameter], lr=0.5, weight_decay=0.0)
        parameter.grad = matrix.clone()
        optimizer.step()
        expected = -0.5 * 0.2 * max(shape) ** 0.5 * close
        torch.testing.assert_close(parameter.detach(), expected, atol=1e-5, rtol=1e-4)


def test_muon_follows_the_library_version_where_that_can_run():
    theirs, ours = (torch.nn.Parameter(torch.ones(8, 24)) for _ in range(2))
    options = {"lr": 0.1, "weight_decay": 0.1}
    reference = torch.optim.Muon([theirs], adjust_lr_fn="match_rms_adamw", **options)
    mine = Muon([ours], compute=torch.bfloat16, **options)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        gradient = torch.randn(8, 24, generator=generator)
        for parameter, optimizer in ((theirs, reference), (ours, mine)):
            parameter.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, atol=5e-3, rtol=0)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(
    tokenizer, tmp_path, monkeypatch, parts
):
    settings = replace(config(6), parts=parts)
    whole = weights_after(Trainer(settings, tokenizer, tmp_path / "whole", compiled=False))

    class Stopped(Exception):
        pass

    def stop(**numbers):
        raise Stopped

    first = Trainer(settings, tokenizer, tmp_path / "cut", compiled=False)
    monkeypatch.setattr(first, "_log", stop)
    with pytest.raises(Stopped):
        first.run(every=3, evaluate=lambda network: {})
    second = Trainer(settings, tokenizer, tmp_path / "cut", compiled=False)
    assert second.position.step == 3
    resumed = weights_after(second)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert (tmp_path / "cut" / "train.json").exists()
    assert '"accuracy": 0.5' in (tmp_path / "cut" / "log.jsonl").read_text()
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("cut", "whole")]
    ends = [json.loads(log[-1])["tokens"] for log in logs]
    assert ends[0] == ends[1] > 0, "tokens seen are counted over the stop"
    assert (tmp_path / "cut" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_log_loses_its_torn_line_and_is_locked_while_the_run_lasts(
    tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(Trainer, "validation_loss", lambda self: {})
    (tmp_path / "log.jsonl").write_text('{"step": 0}\n{"step": 1, "lo')
    first, second = (Trainer(config(2), tokenizer, tmp_path, compiled=False) for _ in range(2))
    said = []

    def evaluate(network):
        with pytest.raises(OptionError, match="log.jsonl: cannot be written: another run") as found:
            second.run(every=2, evaluate=lambda network: {})
        said.append(str(found.value))
        return {}

    first.run(every=1, evaluate=evaluate)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2]
    assert len(said) == 2 and second.position.step == 0
    second.run(every=2, evaluate=lambda network: {})
    assert second.position.step == 2, "the lock goes with the run"


def test_the_parts_of_a_step_differ_in_length_and_objective_and_share_its_rows(
    tokenizer, tmp_path, monkeypatch
):
    tasks = ("chain_sum", "leg_counting", "family_relationships")
    mixture = corpus.Mixture(dict.fromkeys(tasks, 1.0), few_shot=0.0, long_tail=0.0)
    objectives = (Objective.AUTOREGRESSIVE, Objective.PREFIX)
    settings = replace(config(4), stages=(Stage(0, mixture, objectives),), batch_tokens=4096)
    asked: list[tuple[Batch, Objective]] = []

    def recorded(batch, objective, *rest):
        asked.append((batch, objective))
        return ask(batch, objective, *rest)

    trainer = Trainer(
        replace(settings, parts=4, chunk_examples=100), tokenizer, tmp_path, compiled=False
    )
    monkeypatch.setattr(trainer, "validation_loss", dict)
    monkeypatch.setattr(trainer_module, "ask", recorded)
    trainer.run(every=4, evaluate=lambda network: {})
    assert len(asked) == 4 * 4
    steps = [asked[i : i + 4] for i in range(0, len(asked), 4)]
    for step in steps:
        assert len({batch.ids.shape[1] for batch, _ in step}) > 1
        assert [objective for _, objective in step] == [*objectives, *objectives]
        assert sum(2 * batch.ids.numel() for batch, _ in step) <= 4096
    assert trainer.position.tokens == sum(2 * batch.ids.numel() for batch, _ in asked)


def test_the_gradient_of_a_step_is_the_mean_over_its_parts(tokenizer, tmp_path, monkeypatch):
    gradients = []

    class Recorder(torch.optim.SGD):
        def step(self, closure=None):
            gradients.append([p.grad.clone() for p in trainer.network.parameters()])

    def unmoved(network, rate, *rest):
        return [Recorder(network.parameters(), lr=rate)]

    monkeypatch.setattr(trainer_module, "optimizers", unmoved)
    monkeypatch.setattr(trainer_module.nn.utils, "clip_grad_norm_", lambda parameters, norm: None)
    stages = (Stage(0, config(1).stages[0].mixture, (Objective.AUTOREGRESSIVE,)),)
    one = replace(config(2), stages=stages, batch_tokens=256)
    for name, settings in (("one", one), ("two", replace(one, steps=1, batch_tokens=512, parts=2))):
        trainer = Trainer(settings, tokenizer, tmp_path / name, compiled=False)
        monkeypatch.setattr(trainer, "validation_loss", dict)
        trainer.run(every=2, evaluate=lambda network: {})
    first, second, both = gradients
    for a, b, mean in zip(first, second, both, strict=True):
        torch.testing.assert_close(mean, (a + b) / 2)


def test_a_run_goes_on_with_its_own_shape_and_seed_only(tokenizer, tmp_path):
    trainer = Trainer(config(6), tokenizer, tmp_path, compiled=False)
    trainer.save()
    Trainer(replace(config(9), decay=1), tokenizer, tmp_path, compiled=False)
    for other in (
        replace(config(6), seed=1),
        replace(config(6), shape=replace(SHAPE, num_hidden_layers=1)),
    ):
        with pytest.raises(OptionError, match="begun with another shape or seed"):
            Trainer(other, tokenizer, tmp_path, compiled=False)


def test_a_run_keeps_the_arithmetic_it_was_begun_with(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "native_bfloat16", lambda device: False)
    first = Trainer(config(6), tokenizer, tmp_path, compiled=False)
    first.save()
    monkeypatch.setattr(trainer_module, "native_bfloat16", lambda device: True)
    assert not first.bfloat16
    assert not Trainer(config(6), tokenizer, tmp_path, compiled=False).bfloat16
    assert Trainer(config(6), tokenizer, tmp_path / "other", compiled=False).bfloat16


def test_a_run_can_begin_from_trained_weights_of_its_shape(tokenizer, tmp_path):
    trained = random_network(SHAPE, seed=7)
    trainer = Trainer(config(6), tokenizer, tmp_path, compiled=False)
    trainer.start_from(trained)
    assert torch.equal(trainer.network.embedding, trained.embedding)
    assert torch.equal(trainer.network.layers[1].down, trained.layers[1].down)
    with pytest.raises(OptionError, match="the weights to begin from have"):
        trainer.start_from(random_network(replace(SHAPE, intermediate_size=80)))


def test_training_lowers_the_loss(tokenizer, tmp_path):
    mixture = corpus.Mixture({"products": 1.0}, few_shot=0.0, long_tail=0.0)
    settings = TrainConfig(
        SHAPE, (Stage(0, mixture),), 30, warmup=5, decay=5, batch_tokens=1024, chunk_examples=64
    )
    trainer = Trainer(settings, tokenizer, tmp_path, compiled=False)
    before = trainer.validation_loss(8)["val/products"]
    trainer.run(every=30, evaluate=lambda network: {})
    assert trainer.validation_loss(8)["val/products"] < before - 2


def test_every_recipe_can_be_named_on_the_command_line_and_teaches_all_tasks(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(command, "train", lambda folder, settings, *rest: given.append(settings))
    for name, settings in RECIPES.items():
        options = ["--output", str(tmp_path), "--steps", "50", "--decay", "20", "--recipe", name]
        assert CliRunner().invoke(app, ["train", *options]).exit_code == 0
        assert given[-1] == settings(steps=50, decay=20, seed=0)
        assert all(set(TASKS) <= set(stage.mixture.weights) for stage in given[-1].stages)
    refused = CliRunner().invoke(app, ["train", "--output", str(tmp_path), "--recipe", "best"])
    assert refused.exit_code == 2 and len(given) == len(RECIPES)


def test_the_rate_warms_up_holds_and_decays_to_zero(tokenizer, tmp_path):
    stages = (replace(config(6).stages[0], rate=1.0),)
    settings = TrainConfig(SHAPE, stages, 100, warmup=10, decay=20)
    trainer = Trainer(settings, tokenizer, tmp_path, compiled=False)
    rates = []
    for trainer.position.step in (0, 4, 9, 50, 80, 90, 99, 100):
        rates.append(round(trainer.rate(), 4))
    assert rates == [0.1, 0.5, 1.0, 1.0, 1.0, 0.5, 0.05, 0.0]
