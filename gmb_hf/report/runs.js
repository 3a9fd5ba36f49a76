// Runs as curves: the metric of a run, below it a score and its threshold; read when first seen.

// What a page holds of its curves is base64 of zlib (see run_curves.py).
async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function perRun(sizes, take) {
  let at = 0;
  return sizes.map((size, run) => {
    const curve = Float64Array.from({ length: size }, (_, place) => take(at + place, run, place));
    at += size;
    return curve;
  });
}

async function stepsOf(packed, sizes) {
  const jumps = new Float64Array(await unpacked(packed));
  let step = 0;
  return perRun(sizes, (at, _, place) => (step = (place ? step : 0) + jumps[at]));
}

// Of each run its least and greatest value, then differences of codes: low bytes, then high ones.
async function curvesOf(packed, sizes) {
  const content = await unpacked(packed);
  const ends = new Float64Array(content, 0, 2 * sizes.length);
  const planes = new Uint8Array(content, 16 * sizes.length);
  const half = planes.length / 2;
  let code = 0;
  return perRun(sizes, (at, run, place) => {
    code = ((place ? code : 0) + planes[at] + 256 * planes[half + at]) % 4096;
    const [low, high] = [ends[2 * run], ends[2 * run + 1]];
    return code === 4095 ? NaN : low + (code / 4094) * (high - low);
  });
}

const CHOSEN = ["timely", "timely", "early", "miss", "false", "free"];

// The first run of the log of each kind, two of the first kind; without known alarms the first six.
function chosenRuns(runs, alarms, kept) {
  if (!alarms) return runs.slice(0, Math.min(kept, CHOSEN.length)).map((_, run) => run);
  const found = [];
  for (const kind of CHOSEN) {
    const fits = (run) => (kind === "free" ? missing(runs[run].event) : alarms[run][1] === kind);
    const left = runs.map((_, run) => run).slice(0, kept).filter((run) => fits(run) && !found.includes(run));
    // Of runs without an event one that stays without an alarm says more.
    const first = kind === "free" ? left.find((run) => alarms[run][1] === "rejection") : undefined;
    if (left.length) found.push(first === undefined ? left[0] : first);
  }
  return found;
}

function limits(values, least = []) {
  const finite = [...values, ...least].filter(Number.isFinite);
  const [low, high] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.5;
  return [low - pad, high + pad];
}

function traced(steps, values, x, y) {
  let pen = "M";
  const path = [];
  values.forEach((value, at) => {
    if (!Number.isFinite(value)) { pen = "M"; return; }
    path.push(`${pen}${x(steps[at]).toFixed(1)} ${y(value).toFixed(1)}`);
    pen = "L";
  });
  return path.join("");
}

// One run: `one` holds its steps, metric, score, threshold, event and alarm; `span` what is shown.
function runChart(one, design, names, width) {
  const whole = [one.steps[0] || 0, one.steps[one.steps.length - 1] || 1];
  if (whole[0] === whole[1]) whole[1] += 1;
  const holder = element("div", { class: "zoomed" });
  let span = whole;

  function draw() {
    const { w, svg } = canvas(width, 320);
    const box = { left: 48, right: w - 20 };
    const x = scale(span[0], span[1], box.left, box.right);
    const inside = [...one.steps.keys()].filter((at, _, all) =>
      one.steps[Math.min(at + 1, all.length - 1)] >= span[0] && one.steps[Math.max(at - 1, 0)] <= span[1]);
    const cut = (values) => inside.map((at) => values[at]);
    const steps = cut(one.steps);
    const clip = `clip-${(runChart.count = (runChart.count || 0) + 1)}`;
    svg.append(drawn("clipPath", { id: clip }, drawn("rect", { x: box.left, y: 0, width: box.right - box.left, height: 320 })));
    const inner = drawn("g", { "clip-path": `url(#${clip})` });
    const outer = drawn("g");
    const panels = [
      { top: 26, bottom: 128, values: one.metric, name: names.metric, kind: "metric", least: [] },
      { top: 152, bottom: 280, values: one.score, name: names.score, kind: "score", least: missing(one.threshold) ? [] : [one.threshold] },
    ];
    const mark = (from, to, kind) => {
      const [a, b] = [x(Math.max(from, span[0])), x(Math.min(to, span[1]))];
      if (b > a) inner.append(drawn("rect", { x: a, y: 26, width: b - a, height: 254, class: kind }));
    };
    if (!missing(one.event)) {
      mark(one.event - design.safe_gap, one.event - design.horizon, "gap");
      mark(one.event - design.horizon, one.event, "band");
    }
    for (const panel of panels) {
      const shown = cut(panel.values);
      const [low, high] = limits(shown, panel.least);
      const y = scale(low, high, panel.bottom, panel.top);
      for (const at of ticks(low, high, 4)) {
        outer.append(line(box.left, y(at), box.right, y(at), "grid"), text(box.left - 5, y(at) + 4, precise(at), "end"));
      }
      outer.append(text(box.left, panel.top - 7, panel.name.length > 44 ? `${panel.name.slice(0, 43)}…` : panel.name, "start", { class: "strong" }));
      inner.append(drawn("path", { d: traced(steps, shown, x, y), class: panel.kind }));
      for (const at of panel.least) inner.append(line(box.left, y(at), box.right, y(at), "limit"));
      if (panel.kind === "score" && !missing(one.alarm)) {
        // The point is that of the alarm, or the one that stands for it.
        const near = one.steps.findIndex((step) => step >= one.alarm);
        const at = [x(one.alarm), y(one.score[near])];
        if (Number.isFinite(at[1])) inner.append(drawn("path", { d: `M${at[0]} ${at[1]}l-5 -9h10z`, class: "f" }));
      }
    }
    if (!missing(one.event)) inner.append(line(x(one.event), 26, x(one.event), 280, "diagonal"));
    if (!missing(one.alarm)) inner.append(line(x(one.alarm), 26, x(one.alarm), 280, "alarm"));
    for (const at of ticks(span[0], span[1], w < 420 ? 4 : 6)) outer.append(text(x(at), 295, count(at)));
    outer.append(line(box.left, 280, box.right, 280, "frame"), text((box.left + box.right) / 2, 312, "training step"));
    svg.append(outer, inner);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", one.said);
    holder.replaceChildren(svg);
    listen(svg, x, box);
  }

  // Dragging chooses the steps that are shown, a double click all of them.
  function listen(svg, x, box) {
    let start = null;
    const chosen = drawn("rect", { y: 26, height: 254, width: 0, class: "chosen" });
    svg.append(chosen);
    const across = (event) => {
      const place = svg.getBoundingClientRect();
      const at = ((event.clientX - place.left) / place.width) * svg.viewBox.baseVal.width;
      return Math.min(box.right, Math.max(box.left, at));
    };
    svg.addEventListener("pointerdown", (event) => { start = across(event); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", (event) => {
      const at = across(event);
      if (start !== null) {
        chosen.setAttribute("x", Math.min(start, at));
        chosen.setAttribute("width", Math.abs(at - start));
      }
      const step = stepAt(at, box);
      const near = one.steps.reduce((best, found, place) => (Math.abs(found - step) < Math.abs(one.steps[best] - step) ? place : best), 0);
      readout.textContent = `step ${count(one.steps[near])}: ${names.metric} ${shownValue(one.metric[near])}, score ${shownValue(one.score[near])}`;
    });
    svg.addEventListener("pointerup", (event) => {
      const ends = [start, across(event)].sort((a, b) => a - b).map((at) => stepAt(at, box));
      const far = start !== null && Math.abs(across(event) - start) > 6;
      start = null;
      if (far) zoom(...ends); else chosen.setAttribute("width", 0);
    });
    svg.addEventListener("pointercancel", () => { start = null; chosen.setAttribute("width", 0); });
    svg.addEventListener("dblclick", () => zoom(...whole));
  }

  const stepAt = (at, box) => span[0] + ((at - box.left) / (box.right - box.left)) * (span[1] - span[0]);
  const shownValue = (value) => (Number.isFinite(value) ? precise(value) : "–");

  function zoom(from, to) {
    const least = Math.min(whole[1] - whole[0], 4 * (one.steps.length > 1 ? one.steps[1] - one.steps[0] : 1));
    const size = Math.min(whole[1] - whole[0], Math.max(least, to - from));
    const left = Math.min(whole[1] - size, Math.max(whole[0], (from + to - size) / 2));
    span = [left, left + size];
    draw();
  }
  // Towards the event or the alarm as long as the whole run is shown.
  function by(factor, shift = 0) {
    const size = span[1] - span[0];
    const marked = [one.event, one.alarm].filter((at) => !missing(at));
    const middle = size === whole[1] - whole[0] && marked.length
      ? marked.reduce((sum, at) => sum + at, 0) / marked.length : (span[0] + span[1]) / 2;
    const centre = middle + shift * size;
    zoom(centre - (factor * size) / 2, centre + (factor * size) / 2);
  }
  const readout = element("p", { class: "readout dim" }, "Drag over the steps to look closer.");
  const keys = [["+", "closer", () => by(0.5)], ["−", "wider", () => by(2)], ["◂", "earlier", () => by(1, -0.4)],
    ["▸", "later", () => by(1, 0.4)], ["all", "the whole run", () => zoom(...whole)]];
  const buttons = element("p", { class: "zoom" }, ...keys.map(([words, about, act]) => {
    const button = element("button", { type: "button", title: about, "aria-label": `${about}, run ${one.name}` }, words);
    button.addEventListener("click", act);
    return button;
  }));
  draw();
  return [holder, buttons, readout];
}

// The section `#runs`: a score is chosen, six of its runs are drawn, and any other when it is asked.
function arrangeRuns(page) {
  const section = document.getElementById("runs");
  if (!section) return null;
  const [score, run] = ["run-score", "run-name"].map((id) => document.getElementById(id));
  const [cards, note] = ["run-cards", "run-note"].map((id) => document.getElementById(id));
  document.getElementById("run-choice").hidden = false;
  let held = null;
  let asked = 0;

  const option = (value, words) => element("option", { value }, words);
  page.scores.forEach((one, place) => score.append(option(place, one.name)));
  score.addEventListener("change", () => show(Number(score.value)));
  run.addEventListener("change", () => show(Number(score.value), run.value === "" ? null : Number(run.value)));

  async function read() {
    const curves = JSON.parse(document.getElementById("curves").textContent);
    const [steps, metric] = [await stepsOf(curves.steps, curves.sizes), await curvesOf(curves.metric, curves.sizes)];
    return { ...curves, steps, metric, kept: curves.sizes.length };
  }

  const outcomeOf = (place, at) => {
    const alarms = page.scores[place].alarms;
    return alarms ? OUTCOMES[alarms[at][1]] : missing(page.runs[at].event) ? "no event" : "event";
  };

  function offer(place) {
    const groups = new Map();
    for (let at = 0; at < held.kept; at += 1) {
      const kind = outcomeOf(place, at);
      if (!groups.has(kind)) groups.set(kind, element("optgroup", { label: kind }));
      groups.get(kind).append(option(at, page.runs[at].name));
    }
    run.replaceChildren(option("", "the chosen ones"), ...groups.values());
  }

  function drawRun(place, at, scores, wide) {
    const known = page.scores[place];
    const alarm = known.alarms ? known.alarms[at][0] : null;
    const threshold = Array.isArray(scores.threshold) ? scores.threshold[at] : scores.threshold;
    const [event, outcome] = [page.runs[at].event, outcomeOf(place, at)];
    const parts = [missing(event) ? page.runs[at].without || "no event" : `event at step ${count(event)}`];
    if (known.alarms) parts.push(missing(alarm) ? "no alarm before it" : `first alarm at ${count(alarm)}`);
    if (!missing(alarm) && !missing(event)) parts.push(`${count(event - alarm)} steps before the event`);
    parts.push(missing(threshold) ? "no finite threshold" : `threshold ${precise(threshold)} (dashed)`);
    const said = `${parts.join(", ").replace("no event, no alarm before it", "no event, no alarm")}.`;
    const one = { name: page.runs[at].name, steps: held.steps[at], metric: held.metric[at], score: scores.values[at],
      event, alarm, threshold, said: `Run ${page.runs[at].name}, ${outcome}: ${said}` };
    const box = element("figure", { class: wide ? "card run wide" : "card run", "data-run": at },
      element("h3", {}, `${one.name}: `, element("span", { class: "dim" }, outcome)));
    const inner = cards.clientWidth;
    const columns = Math.max(1, Math.floor((inner + 16) / (24 * 16 + 16)));
    const width = (wide ? inner : (inner - 16 * (columns - 1)) / columns) - 28;
    box.append(...runChart(one, page.design || { horizon: 0, safe_gap: 0 }, { metric: held.name, score: known.name }, width));
    box.append(element("figcaption", {}, said));
    return box;
  }

  async function show(place, at = null) {
    const mine = (asked += 1);
    try {
      held = held || await read();
      const packed = held.scores[place];
      const scores = { ...packed, values: await curvesOf(packed.values, held.sizes) };
      if (mine !== asked) return; // another one was chosen in the meantime
      if (at === null) offer(place);
      score.value = String(place);
      run.value = at === null ? "" : String(at);
      const chosen = chosenRuns(page.runs, page.scores[place].alarms, held.kept).filter((one) => one !== at);
      cards.replaceChildren(...(at === null ? [] : [drawRun(place, at, scores, true)]),
        ...chosen.map((one) => drawRun(place, one, scores, false)));
      note.textContent = [
        held.kept < held.of ? `The page holds the first ${count(held.kept)} of ${count(held.of)} runs.` : "",
        held.every > 1 ? `A point stands for ${held.every} checkpoints: the last value of the metric, the highest of the score.` : "",
        held.by === "windows" ? "Thresholds are those of the primary target by windows." : "",
      ].join(" ");
    } catch {
      note.textContent = "This browser cannot unpack the curves; a newer one does.";
    }
  }

  new IntersectionObserver((seen, watcher) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    watcher.disconnect();
    if (!asked) show(0);
  }, { rootMargin: "400px" }).observe(section);
  return (place) => { show(place); section.scrollIntoView({ block: "start" }); };
}
