// The pages of the leaderboard: a table with a tab for each class, or the charts of a score.
document.addEventListener("DOMContentLoaded", () => {
  themeButton(document.getElementById("theme"));
  if (document.getElementById("table")) arrangeTabs();
  const words = document.getElementById("words");
  if (words && location.hash === "#words") words.open = true;
  const data = document.getElementById("data");
  const scores = data ? JSON.parse(data.textContent) : [];
  for (const box of document.querySelectorAll(".cards[data-entry]")) {
    box.append(...charts(...unpacked(scores[box.dataset.entry]), box.clientWidth));
  }
});

// One class at a time: classes are never ranked together. A search looks into all of them.
function arrangeTabs() {
  const list = document.getElementById("tabs");
  const search = document.getElementById("search");
  const tabs = [...list.children];
  let chosen = tabs.find((tab) => `#${tab.dataset.kind}` === location.hash) || tabs[0];
  let filter = () => {};

  function choose(tab) {
    chosen = tab;
    for (const one of tabs) {
      one.setAttribute("aria-selected", String(one === chosen));
      one.tabIndex = one === chosen ? 0 : -1;
    }
    filter();
  }

  function told(matches) {
    for (const tab of tabs) tab.lastElementChild.textContent = matches[tab.dataset.kind] || 0;
    const other = tabs.find((tab) => matches[tab.dataset.kind]);
    if (search.value && !matches[chosen.dataset.kind] && other) choose(other);
  }

  ({ filter } = arrangeTable(undefined, undefined, (row) => row.dataset.kind === chosen.dataset.kind, told));
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (!tab) return;
    choose(tab);
    history.replaceState(null, "", `#${tab.dataset.kind}`);
  });
  list.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    const next = tabs[(tabs.indexOf(chosen) + way + tabs.length) % tabs.length];
    choose(next);
    next.focus();
    event.preventDefault();
  });
  list.hidden = false;
  choose(chosen);
}

// A score and the page around it, as the charts of a report take them. Runs are those of the panel.
function unpacked(data) {
  const { names, events, ...around } = globalThis.gmbPanels[data.panel];
  const runs = data.own ? [] : names.map((name, place) => ({ name, event: events[place], without: "no event" }));
  const words = { t: "timely", e: "early", m: "miss", q: "rejection", f: "false" };
  const alarms = data.alarms && data.alarms.map((step, place) => [step, words[data.outcomes[place]]]);
  return [{ ...data, alarms, leads: [], targets: [] }, { ...around, runs }];
}
