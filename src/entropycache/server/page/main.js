// The controls: what is asked of the server, one run or a race of two.

import { canvases } from "./stream.js";
import { Lane } from "./lane.js";

const $ = id => document.getElementById(id);
const RULES = { "confident": { threshold: 0.9 }, "one": { tokens_per_step: 1 }, "four": { tokens_per_step: 4 } };
const SAID = { "confident": "confident tokens", "one": "one token a pass", "four": "four tokens a pass" };
const COMMITS = { "confident": "all tokens that the model is 90 % sure of, at least one", "one": "one token", "four": "four tokens" };
let about, running = null, lanes = [];

async function connect() {
  about = await (await fetch("/page/about.json")).json();
  $("model").textContent = `${about.model} · ready`;
  $("key-field").hidden = !about.key;
  $("length").max = about.positions;
  about.problems.forEach((problem, i) => $("example").add(new Option(`${problem.task}: ${problem.question}`, i)));
  for (const side of ["first", "second"]) {
    about.policies.forEach(({ name }) => $(`${side}-policy`).add(new Option(name)));
    Object.keys(RULES).forEach(rule => $(`${side}-rule`).add(new Option(rule)));
    $(`${side}-policy`).onchange = () => { $(`${side}-options`).value = ""; describe(side); };
    $(`${side}-rule`).onchange = () => describe(side);
  }
  choose("first", about.defaults.policy, "confident");
  choose("second", "none", "one");
  $("example").value = about.problems.findIndex(problem => problem.task === "aiw");
  take();
}

function choose(side, spec, rule) {
  const name = about.policies.map(p => p.name).find(n => spec === n || spec.startsWith(`${n}:`));
  $(`${side}-policy`).value = name;
  $(`${side}-options`).value = spec.slice(name.length + 1);
  $(`${side}-rule`).value = rule;
  describe(side);
}

function describe(side) {
  const { options, what } = about.policies[$(`${side}-policy`).selectedIndex];
  $(`${side}-options`).placeholder = options || "it has none";
  $(`${side}-hint`).textContent = (what ? `Recomputes ${what}. ` : "") +
    `Commits ${COMMITS[$(`${side}-rule`).value]} in a pass.` + (options ? ` Options: ${options}.` : "");
}

function take() {
  $("prompt").value = about.problems[+$("example").value].question;
}

function settings(side) {
  const options = $(`${side}-options`).value.trim(), name = $(`${side}-policy`).value;
  return {
    messages: [{ role: "user", content: $("prompt").value }],
    policy: options ? `${name}:${options}` : name,
    gen_length: +$("length").value,
    temperature: +$("temperature").value,
    ...RULES[$(`${side}-rule`).value],
  };
}

function lane(side) {
  const { policy } = settings(side), rule = $(`${side}-rule`).value;
  const title = policy === "none" && rule === "one" ? "plain decoding" : policy;
  const known = about.problems.find(problem => problem.question === $("prompt").value);
  return new Lane(`${title} · ${SAID[rule]}`, rule, known ? known.answer : null);
}

// Follow a run: each event to the lane at once, or into a list to be shown later.
async function follow(side, take, signal) {
  for await (const event of canvases(settings(side), $("key").value, signal)) take(event);
}

function lay(...fresh) {
  lanes = fresh;
  $("lanes").replaceChildren(...lanes.map(one => one.root));
  if ($("lanes").getBoundingClientRect().top > innerHeight - 200) $("lanes").scrollIntoView();
}

function show(target, event) { target[event.event](event); }

async function run(signal) {
  const only = lane("first");
  lay(only);
  await follow("first", event => show(only, event), signal);
}

// Two decoders at once would slow each other down. So the first runs alone and is recorded; while the
// second runs, the record is played at the speed of the first.
async function race(signal) {
  const [first, second] = [lane("first"), lane("second")], tape = [];
  lay(first, second);
  first.state("decoding, shown later …");
  second.state("waiting …");
  await follow("first", event => tape.push(event), signal);
  const live = follow("second", event => { show(second, event); align(); }, signal);
  const replay = play(tape, event => { show(first, event); align(); }, signal);
  await Promise.all([live, replay]);
  verdict(first, second);
}

async function play(tape, take, signal) {
  const started = performance.now();
  for (const event of tape) {
    const wait = (event.seconds || 0) * 1000 - (performance.now() - started);
    if (wait > 0) await new Promise(done => setTimeout(done, wait));
    signal.throwIfAborted();
    take(event);
  }
}

function align() {
  const span = Math.max(...lanes.map(one => one.span));
  lanes.filter(one => one.steps.length).forEach(one => one.until(span));
}

function verdict(first, second) {
  const [a, b] = [first.ended, second.ended];
  const sooner = a.seconds <= b.seconds ? first : second, factor = Math.max(a.seconds, b.seconds) / Math.min(a.seconds, b.seconds);
  $("verdict").textContent = `${sooner.find(".name").textContent} was done ${factor.toFixed(1)}× sooner. ` +
    `The decoder computed ${(100 * first.rows / second.rows).toFixed(0)} % of the rival's rows. ` +
    `Their answers are ${a.text === b.text ? "the same" : "different"}. Each had the engine to itself.` +
    (first.rule === second.rule ? "" : " They commit differently: for the cache's share alone, give both the same tokens a step.");
  $("verdict").hidden = false;
}

async function start(job) {
  stop();
  const mine = running = new AbortController();
  $("error").hidden = $("verdict").hidden = true;
  $("run").disabled = $("race").disabled = true;
  $("stop").disabled = false;
  try {
    await job(mine.signal);
  } catch (error) {
    mine.abort();
    if (mine === running && error.name !== "AbortError") fail(error);
  }
  if (mine === running) rest();
}

function fail(error) {
  $("error").textContent = error instanceof TypeError ? "The server cannot be reached." : `The server says: ${error.message}`;
  $("error").hidden = false;
  for (const one of lanes) one.steps.length ? one.halt("failed") : one.root.remove();
}

function rest() {
  running = null;
  $("run").disabled = $("race").disabled = false;
  $("stop").disabled = true;
}

function stop() {
  if (!running) return;
  running.abort();
  lanes.forEach(one => one.halt("stopped"));
  rest();
}

$("form").onsubmit = event => { event.preventDefault(); start(run); };
$("race").onclick = () => { if ($("form").reportValidity()) start(race); };
$("stop").onclick = stop;
$("example").onchange = take;
$("another").onclick = () => { $("example").selectedIndex = ($("example").selectedIndex + 1) % about.problems.length; take(); };
$("prompt").onkeydown = event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit(); };
connect().catch(() => { $("model").textContent = "not reachable"; });
