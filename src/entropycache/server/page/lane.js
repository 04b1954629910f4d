// One run as it is watched: its canvas, what each pass computed, and what it cost so far.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 100, WIDTH = 1000;
const count = new Intl.NumberFormat("en");
const WHY = { // by the reason that the policy gave
  first: "the cache is empty", every: "this policy caches nothing", stale: "the cache was judged stale",
  block: "a new block starts", interval: "a refresh is due", partial: "the rest is read from the cache",
};

export class Lane {
  constructor(name, rule, answer) {
    this.root = document.getElementById("lane").content.firstElementChild.cloneNode(true);
    Object.assign(this, { rule, answer });
    this.steps = [];
    this.span = 0;
    this.find(".name").textContent = name;
    this.find("input").addEventListener("input", event => this.show(+event.target.value));
    this.root.setAttribute("aria-label", name);
    this.state("ready");
  }

  find(selector) { return this.root.querySelector(selector); }

  state(text) { this.find(".state").textContent = text; }

  open(event) {
    const { canvas, start, end_ids: ends } = event;
    Object.assign(this, { length: canvas.length, start, ends: new Set(ends), rows: 0, full: 0, tokens: 0 });
    this.told = Array(this.length).fill(null); // by position: text, entropy, the pass that committed it
    this.cells = canvas.slice(start).map(() => document.createElement("span"));
    this.find(".canvas").replaceChildren(...this.cells);
    this.find(".strip").width = this.length;
    this.state("decoding …");
    this.paint(-1);
  }

  step(event) {
    const at = this.steps.push({ ...event, rows: event.rows && new Set(event.rows) }) - 1;
    event.positions.forEach((position, i) => {
      const end = this.ends.has(event.tokens[i]);
      this.told[position] = { text: event.text[i], entropy: event.entropy[i], at, end };
      this.tokens += !end;
    });
    this.rows += event.work;
    this.full += event.full;
    this.bar(at);
    this.show(at);
    this.numbers(event.seconds, this.tokens / event.seconds);
  }

  end(event) {
    this.ended = event;
    this.state("done");
    this.numbers(event.seconds, event.tokens_per_second);
    this.find(".text").textContent = event.text || "(empty: the first token ends the answer)";
    const slider = this.find("input");
    slider.disabled = false;
    slider.max = slider.value = this.steps.length - 1;
    if (this.answer !== null) this.judge(event.text);
  }

  halt(state) { // stopped or failed before its end: what there is can still be looked at
    if (this.ended) return;
    this.state(state);
    this.find("input").disabled = !this.steps.length;
  }

  judge(text) {
    const right = text.includes("####") && text.split("####").pop().trim() === this.answer;
    this.find(".judged").textContent = right ? "✓ correct" : `✗ the answer is ${this.answer}`;
    this.find(".judged").classList.add(right ? "good" : "bad");
  }

  numbers(seconds, speed) {
    const share = this.rows / (this.steps.length * this.length);
    this.stat("speed", Math.round(speed));
    this.stat("seconds", seconds.toFixed(2));
    this.stat("passes", count.format(this.steps.length), `(${this.full})`);
    this.stat("rows", count.format(Math.round(this.rows)), `${Math.round(100 * share)} %`);
  }

  stat(name, value, note = "") {
    const small = document.createElement("small");
    small.textContent = note;
    this.find(`[data-stat=${name}]`).replaceChildren(`${value} `, small);
  }

  show(at) {
    const step = this.steps[at];
    if (!step) return;
    this.find("input").max = this.steps.length - 1;
    this.find("input").value = at;
    this.find("output").textContent = `${at + 1} of ${this.steps.length} · ${step.full ? "full" : "partial"}: ${WHY[step.reason] ?? step.reason}`;
    this.find(".canvas").classList.toggle("full", step.full);
    this.paint(at);
    this.strip(step);
    this.find(".timeline .at")?.classList.remove("at");
    if (!this.find("input").disabled) this.find(".timeline").children[at].classList.add("at");
  }

  paint(at) {
    const step = this.steps[at];
    this.cells.forEach((cell, i) => {
      const position = this.start + i, told = this.told[position];
      const known = told && told.at <= at;
      const fresh = step && (step.full || step.rows.has(position)) ? " fresh" : "";
      cell.className = "cell " + (!known ? "mask" : told.end ? "end" : "token") + fresh + (known && told.at === at ? " now" : "");
      const text = !known ? "·" : told.end ? "▪" : told.text.replaceAll("\n", "↵");
      if (cell.textContent !== text) cell.textContent = text;
      if (!known || told.end) return cell.removeAttribute("title");
      cell.style.setProperty("--hue", 150 - 142 * Math.min(1, told.entropy / 2));
      cell.title = `position ${position}, pass ${told.at + 1}, ${told.entropy.toFixed(3)} nats`;
    });
  }

  strip(step) {
    const brush = this.find(".strip").getContext("2d"), style = getComputedStyle(this.root);
    brush.clearRect(0, 0, this.length, 14);
    brush.fillStyle = style.getPropertyValue(step.full ? "--full" : "--fresh");
    if (step.full) brush.fillRect(0, 0, this.length, 14);
    else step.rows.forEach(position => brush.fillRect(position, 0, 1, 14));
    brush.fillStyle = style.getPropertyValue("--ink");
    brush.fillRect(this.start, 0, 1, 14); // where the answer starts
  }

  bar(at) {
    const bar = document.createElementNS(SVG, "rect");
    if (this.steps[at].full) bar.classList.add("full");
    this.find(".timeline").append(bar);
    this.until(Math.max(this.span, this.steps[at].seconds));
  }

  until(seconds) { // the time axis; two lanes of a race share one
    if (seconds === this.span) return this.place(this.steps.length - 1);
    this.span = seconds;
    this.find(".timeline").setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    this.find(".until").textContent = `${seconds.toFixed(2)} s`;
    this.steps.forEach((_, at) => this.place(at));
  }

  place(at) {
    const bar = this.find(".timeline").children[at], step = this.steps[at];
    const from = at ? this.steps[at - 1].seconds : 0, scale = WIDTH / this.span;
    const height = Math.max(2, HEIGHT * step.work / this.length);
    const width = Math.max(1.5, (step.seconds - from) * scale * 0.9);
    const values = { x: from * scale, width, y: HEIGHT - height, height };
    for (const [name, value] of Object.entries(values)) bar.setAttribute(name, value.toFixed(2));
  }
}
