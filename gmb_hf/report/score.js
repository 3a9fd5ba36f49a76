// A score in full: its charts and tables, from what a page holds of it.

function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const missing = (value) => value === null || value === undefined;
const percent = (value) => (missing(value) ? "–" : `${Math.round(100 * value)}%`);
const rate = (value) => (missing(value) ? "–" : value.toFixed(3));
const count = (value) => (missing(value) ? "–" : Math.round(value).toLocaleString("en-US"));
const chance = (value) => (missing(value) ? "–" : value < 0.001 ? "<0.001" : value.toFixed(3));
const precise = (value) => (missing(value) ? "–" : String(Number(value.toPrecision(4))));
const between = (pair, show) => (pair ? ` [${show(pair[0])}, ${show(pair[1])}]` : "");

// An opened score.

function opened(score, page, width) {
  const box = element("div", { class: "opened" });
  if (score.sentence) box.append(element("p", {}, element("strong", {}, score.sentence)));
  if (score.reasons.length) {
    const verb = score.may ? "Noted" : "Why it may not raise an alarm";
    box.append(element("p", {}, `${verb}: ${score.reasons.join("; ")}.`));
  }
  if (score.gates.length) {
    box.append(grid("The gates that decide the label", ["unit", "gate", "state", "what stands against it"],
      score.gates, [0, 1, 2, 3]));
  }
  box.append(element("div", { class: "cards" }, ...charts(score, page, width - 34)));
  box.append(...tables(score));
  box.append(element("p", { class: "dim" }, about(score)));
  if (score.missing.length) {
    box.append(folded(`Why ${score.missing.length} numbers are missing`, () =>
      grid("Numbers that do not exist", ["number", "why"],
        score.missing.map(([number, why]) => [number, page.whys[why]]), [0, 1])));
  }
  return box;
}

// Every chart that there are numbers for, as wide as two beside each other are where there is room.
function charts(score, page, inner) {
  const room = (inner >= 790 ? (inner - 16) / 2 : inner) - 28;
  return [alarmChart, rateChart, leadChart, chanceChart]
    .map((draw) => draw(score, page, room)).filter(Boolean);
}

function about(score) {
  const robust = score.robustness;
  const parts = [score.family ? `${score.kind}, of the family ${score.family}` : score.kind];
  parts.push(`AUC ${rate(score.auc)}, average precision ${rate(score.ap)}`);
  if (!missing(robust.family_size)) {
    parts.push(`its result flips in ${percent(robust.label_flip_rate)} of ${count(robust.family_size)} small changes` +
      (robust.sensitivity_notes ? ` (${robust.sensitivity_notes})` : ""));
  }
  if (!missing(score.support)) parts.push(`effective support ${precise(score.support)}, ties ${percent(score.ties)}`);
  if (score.comments) parts.push(score.comments);
  return `More: ${parts.join("; ")}.`;
}

function folded(title, make) {
  const box = element("details", {}, element("summary", {}, title));
  box.addEventListener("toggle", () => { if (box.open && box.childElementCount === 1) box.append(make()); });
  return box;
}

function grid(caption, heads, lines, left = []) {
  const classed = (column) => (left.includes(column) ? { class: "left" } : {});
  const head = heads.map((text, column) => element("th", { scope: "col", ...classed(column) }, text));
  const body = lines.map((line) => element("tr", {}, ...line.map((text, column) =>
    element("td", classed(column), text))));
  return element("div", { class: "scroll", role: "group", "aria-label": caption, tabindex: "0" },
    element("table", { class: "small" }, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
}

const budgetLine = (at) => [
  at.abstains ? "abstains" : precise(at.threshold),
  percent(at.rate) + between(at.interval, percent),
  percent(at.detected) + between(at.detectedInterval, percent),
  percent(at.timely),
  percent(at.missed),
  count(at.leads[1]),
  missing(at.leads[0]) ? "–" : `${count(at.leads[0])} to ${count(at.leads[2])}`,
  at.state,
];
const BUDGET_HEADS = ["threshold", "false-alarm rate per run", "detection rate", "timely", "missed", "median lead time", "middle half", "budget"];

function tables(score) {
  const found = [];
  if (score.budgets.length) {
    found.push(grid("By runs, at each budget", ["budget", ...BUDGET_HEADS],
      score.budgets.map((at) => [at.words, ...budgetLine(at)])));
  }
  if (score.events.length) {
    found.push(grid("Before other events, each with thresholds of its own", ["event", ...BUDGET_HEADS],
      score.events.map((at) => [at.event, ...budgetLine(at)])));
  }
  if (score.targets.length) {
    found.push(grid("By windows, at each target",
      ["target", "threshold", "false positive rate", "coverage", "chance", "median lead time", "budget"],
      score.targets.map((at) => [
        String(at.target),
        at.abstains ? "abstains" : precise(at.threshold),
        rate(at.rate) + between(at.interval, rate),
        percent(at.coverage), percent(at.chance), count(at.lead), at.state || "–",
      ])));
  }
  if (score.strata.length) {
    found.push(grid("Strata named beforehand", ["stratum", "where", "outcome", "in words"],
      score.strata.map((part) => [part.name, part.where, part.passed ? "passes" : "does not pass", part.sentence]),
      [0, 1, 2, 3]));
  }
  return found;
}

// Charts.

function card(title, chart, caption, ...more) {
  const figure = element("figure", { class: "card" }, element("h3", {}, title));
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `${title}. ${caption}`);
  figure.append(chart, element("figcaption", {}, caption), ...more);
  return figure;
}

function scale(from, to, low, high) {
  const size = to - from || 1;
  return (value) => low + ((value - from) / size) * (high - low);
}

function ticks(from, to, most) {
  const raw = (to - from || 1) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((one) => one * power >= raw);
  const first = Math.ceil(from / step);
  const found = [];
  // Counted, since far from 0 a small step would lead nowhere.
  for (let k = 0; k <= most && (first + k) * step <= to + step * 1e-9; k += 1) {
    found.push(Number(((first + k) * step).toPrecision(12)));
  }
  return [...new Set(found)];
}

function canvas(width, height) {
  const w = Math.max(240, Math.round(width));
  return { w, height, svg: drawn("svg", { class: "chart", viewBox: `0 0 ${w} ${height}`, width: w, height }) };
}

const text = (x, y, words, anchor = "middle", more = {}) =>
  drawn("text", { x, y, "text-anchor": anchor, ...more }, words);
const line = (x1, y1, x2, y2, kind) => drawn("line", { x1, y1, x2, y2, class: kind });

function axes(svg, box, x, y, xTicks, yTicks, xLabel, yLabel, showX = count, showY = count) {
  for (const at of yTicks) {
    svg.append(line(box.left, y(at), box.right, y(at), "grid"), text(box.left - 5, y(at) + 4, showY(at), "end"));
  }
  for (const at of xTicks) svg.append(text(x(at), box.bottom + 15, showX(at)));
  svg.append(line(box.left, box.bottom, box.right, box.bottom, "frame"));
  svg.append(text((box.left + box.right) / 2, box.bottom + 31, xLabel), text(box.left - 40, 12, yLabel, "start"));
}

const OUTCOMES = { false: "false", early: "early", timely: "timely", miss: "missed", rejection: "correctly rejected" };

function mark(outcome, x, y, title) {
  const tip = drawn("title", {}, title);
  if (outcome === "false") return drawn("path", { d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6`, class: "f", "stroke-width": 1.6 }, tip);
  if (outcome === "early") return drawn("path", { d: `M${x} ${y - 4}l4 4l-4 4l-4 -4z`, class: "e" }, tip);
  if (outcome === "timely") return drawn("circle", { cx: x, cy: y, r: 3, class: "t" }, tip);
  if (outcome === "miss") return drawn("path", { d: `M${x} ${y - 4}v8`, class: "m", "stroke-width": 1.6 }, tip);
  return drawn("circle", { cx: x, cy: y, r: 2.6, class: "q" }, tip);
}

function said(run, step, outcome) {
  const event = missing(run.event) ? run.without || "no event" : `t* ${count(run.event)}`;
  const alarm = missing(step) ? "no alarm" : `first alarm ${count(step)}`;
  const lead = missing(step) || missing(run.event) ? "" : `, lead time ${count(run.event - step)} steps`;
  return `run ${run.name}: ${event}, ${alarm}${lead} (${OUTCOMES[outcome]})`;
}

// Each run: when its event came (to the right) and when its first alarm came (upwards).
function alarmChart(score, page, width) {
  if (!score.alarms || !page.runs.length) return null;
  const { w, svg } = canvas(width, 330);
  const events = page.runs.map((run) => run.event).filter((at) => !missing(at));
  const steps = score.alarms.map(([step]) => step).filter((at) => !missing(at));
  const free = page.runs.some((run) => missing(run.event));
  const box = { left: 48, right: w - (free ? 62 : 12), top: 56, bottom: 288 };
  const last = Math.max(0, ...events, ...steps);
  const from = events.length ? Math.min(...events) : 0;
  const to = events.length ? Math.max(...events) : 1;
  const pad = Math.max((to - from) * 0.04, 1);
  const x = scale(from - pad, to + pad, box.left, box.right);
  const y = scale(0, last * 1.02 || 1, box.bottom, box.top);
  axes(svg, box, x, y, events.length ? ticks(from, to, w < 420 ? 4 : 6) : [], ticks(0, last, 6),
    "event t*, in steps", "first alarm, in steps");
  const { horizon, safe_gap: gap } = page.design;
  const strip = (near, far, kind) => {
    const ends = [from - pad, to + pad];
    const points = [...ends.map((at) => [at, at - near]), ...ends.reverse().map((at) => [at, at - far])];
    return drawn("polygon", { class: kind, points: points.map(([a, b]) => `${x(a)},${y(Math.max(0, b))}`).join(" ") });
  };
  if (events.length) {
    svg.append(strip(0, horizon, "band"), strip(horizon, gap, "gap"));
    svg.append(line(x(from - pad), y(Math.max(0, from - pad)), x(to + pad), y(to + pad), "diagonal"));
  }
  svg.append(text(box.left - 5, box.top - 19, "none", "end"));
  const counts = {};
  const marks = page.runs.map((run, place) => {
    const [step, outcome] = score.alarms[place];
    counts[outcome] = (counts[outcome] || 0) + 1;
    const across = missing(run.event) ? w - 40 + ((place * 7) % 29) - 14 : x(run.event);
    return mark(outcome, across, missing(step) ? box.top - 23 : y(step), said(run, step, outcome));
  });
  svg.append(...marks);
  if (free) svg.append(text(w - 40, box.bottom + 15, "no event"));
  const summed = Object.keys(OUTCOMES).filter((name) => counts[name]).map((name) => `${counts[name]} ${OUTCOMES[name]}`);
  const all = folded("Every run as a table", () => grid("Every judged run", ["run", "t*", "first alarm", "lead time", "outcome"],
    page.runs.map((run, place) => {
      const [step, outcome] = score.alarms[place];
      const lead = missing(step) || missing(run.event) ? null : run.event - step;
      return [run.name, count(run.event), count(step), count(lead), OUTCOMES[outcome]];
    })));
  return card("First alarms against events, run by run", svg,
    `${summed.join(", ")}. The line is t*; in the strip below it an alarm is timely (dot), in the next one early ` +
    "(diamond), lower false (cross). Strokes on top: no alarm before t*.", all);
}

// Thresholds and the rates of false alarms they cost.
function rateChart(score, page, width) {
  const usable = (list) => list.filter((at) => !missing(at.threshold) && !missing(at.rate));
  const byWindows = usable(score.targets);
  const byRuns = usable(score.budgets);
  const every = [...byWindows, ...byRuns];
  const never = [...score.targets.filter((at) => at.abstains).map((at) => `${at.target} of windows`),
    ...score.budgets.filter((at) => at.abstains).map((at) => at.words)];
  if (!every.length) return null;
  const { w, svg } = canvas(width, 330);
  const box = { left: 48, right: w - 14, top: 28, bottom: 288 };
  const thresholds = every.map((at) => at.threshold);
  const spread = Math.max(...thresholds) - Math.min(...thresholds) || Math.abs(thresholds[0]) || 1;
  if (!Number.isFinite(spread * 1.2)) return null; // farther apart than a number can say
  const from = Math.min(...thresholds) - spread * 0.08;
  const to = Math.max(...thresholds) + spread * 0.08;
  const most = Math.max(...every.map((at) => Math.max(at.interval ? at.interval[1] : 0, at.rate, at.target || at.budget)));
  const root = scale(0, Math.sqrt(Math.min(1, most * 1.1) || 1), box.bottom, box.top);
  const x = scale(from, to, box.left, box.right);
  const y = (value) => root(Math.sqrt(value));
  const marks = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1].filter((at) => at <= most * 1.1);
  axes(svg, box, x, y, ticks(from, to, w < 420 ? 3 : 5), marks, "threshold", "false alarms", precise, String);
  const draw = (at, kind, asked, words) => {
    const [cx, cy] = [x(at.threshold), y(at.rate)];
    svg.append(line(cx - 9, y(asked), cx + 9, y(asked), "limit"));
    if (at.interval) svg.append(line(cx, y(at.interval[0]), cx, y(at.interval[1]), `range ${kind}`));
    const tip = drawn("title", {}, words);
    svg.append(kind === "w"
      ? drawn("circle", { cx, cy, r: 4, class: kind }, tip)
      : drawn("rect", { x: cx - 3.6, y: cy - 3.6, width: 7.2, height: 7.2, class: kind }, tip));
  };
  for (const at of byWindows) {
    draw(at, "w", at.target, `threshold ${precise(at.threshold)}: ${rate(at.rate)} of windows, target ${at.target}`);
  }
  for (const at of byRuns) {
    draw(at, "r", at.budget, `threshold ${precise(at.threshold)}: ${rate(at.rate)} of runs, budget ${at.words}`);
  }
  return card("Threshold against false alarms", svg,
    (byWindows.length ? "Dots: share of windows, as layer B has it." : "") +
    (byRuns.length ? " Squares: share of runs with a false alarm." : "") +
    " Bars: 95% intervals. Dashes: what was asked for. The axis of rates is a square root." +
    (never.length ? ` Abstains at ${never.join(", ")}.` : ""));
}

// Lead times.
function leadChart(score, page, width) {
  const byRuns = Boolean(score.alarms);
  const leads = byRuns
    ? page.runs.map((run, at) => [run.event - score.alarms[at][0], score.alarms[at][1]])
      .filter(([, outcome]) => outcome === "early" || outcome === "timely")
    : score.leads.map((lead) => [lead, "timely"]);
  if (!leads.length) return null;
  const { w, svg } = canvas(width, 250);
  const box = { left: 48, right: w - 14, top: 28, bottom: 208 };
  const most = Math.max(...leads.map(([lead]) => lead));
  const bounds = ticks(0, most, 24);
  const size = bounds[1] - bounds[0];
  const bins = Array.from({ length: Math.max(1, Math.ceil(most / size)) }, () => ({ timely: 0, early: 0 }));
  // A lead time of exactly two bins belongs to the second: (0, size], (size, 2 size], ...
  for (const [lead, outcome] of leads) bins[Math.min(bins.length, Math.max(1, Math.ceil(lead / size))) - 1][outcome] += 1;
  const highest = Math.max(...bins.map((bin) => bin.timely + bin.early));
  const x = scale(0, bins.length * size, box.right, box.left); // to the right is later, as in time
  const y = scale(0, highest, box.bottom, box.top);
  axes(svg, box, x, y, ticks(0, bins.length * size, w < 420 ? 4 : 7), ticks(0, highest, 4).filter(Number.isInteger),
    "lead time, in steps", "events");
  bins.forEach((bin, at) => {
    let base = 0;
    for (const outcome of ["timely", "early"]) {
      if (!bin[outcome]) continue;
      const left = x((at + 1) * size) + 0.5;
      const words = `${bin[outcome]} events detected ${count(at * size)} to ${count((at + 1) * size)} steps before t* (${OUTCOMES[outcome]})`;
      svg.append(drawn("rect", {
        x: left, y: y(base + bin[outcome]), width: Math.max(1, x(at * size) - left - 0.5),
        height: y(base) - y(base + bin[outcome]), class: outcome[0],
      }, drawn("title", {}, words)));
      base += bin[outcome];
    }
  });
  if (page.design && page.design.horizon < bins.length * size) {
    const at = x(page.design.horizon);
    svg.append(line(at, box.top - 6, at, box.bottom, "limit"), text(at - 4, box.top + 4, "horizon", "end"));
  }
  const ordered = leads.map(([lead]) => lead).sort((a, b) => a - b);
  const middle = (ordered[(ordered.length - 1) >> 1] + ordered[ordered.length >> 1]) / 2;
  return card("Lead times", svg,
    `${leads.length} events ${byRuns ? "detected" : "covered"}; the median lead time is ${count(middle)} steps.` +
    (byRuns ? " Right of the dashed horizon timely, left of it early." : ""));
}

// What the score detects, beside alarms that know nothing of the event.
function chanceChart(score, page, width) {
  if (!score.baselines.length || missing(score.detected)) return null;
  const lines = [{ name: "this score", detected: score.detected, interval: score.detectedInterval }, ...score.baselines];
  const { w, svg } = canvas(width, 16 + lines.length * 42);
  const x = scale(0, 1, 4, w - 120);
  lines.forEach((one, at) => {
    const top = 8 + at * 42;
    svg.append(text(4, top + 9, one.name, "start", at ? {} : { class: "strong" }));
    svg.append(drawn("rect", { x: 4, y: top + 14, width: Math.max(1, x(one.detected) - 4), height: 14, class: at ? "b" : "t" }));
    if (one.interval) svg.append(line(x(one.interval[0]), top + 21, x(one.interval[1]), top + 21, "diagonal"));
    const p = missing(one.p) ? "" : `, p ${chance(one.p)}`;
    svg.append(text(Math.max(x(one.detected), one.interval ? x(one.interval[1]) : 0) + 6, top + 25, percent(one.detected) + p, "start", { class: "strong" }));
  });
  return card("Beside chance baselines of the same cost", svg,
    `Share of events ${page.by === "runs" ? "detected by the first alarm" : "covered by windows"}; p, that the baseline detects as many, is not adjusted.`);
}
