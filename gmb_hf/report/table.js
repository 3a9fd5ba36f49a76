"use strict";

// The theme is chosen before anything is painted; a page from a file may have no storage.
const root = document.documentElement;
const remembered = {
  get() { try { return localStorage.getItem("gmb-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("gmb-theme", value); } catch { /* not remembered */ } },
};
if (["light", "dark"].includes(remembered.get())) root.dataset.theme = remembered.get();

// The table `#table` is sorted within each class, or all classes together where `#apart` says so;
// `#filters` choose its rows. Below a row stays what `below(row)` gives, if `opened(row)`. Only rows
// that are `within` are shown; `after` is told how many match of each class, shown or not.
function arrangeTable(below = () => null, opened = () => false, within = () => true, after = () => {}) {
  const find = (id) => document.getElementById(id);
  const table = find("table");
  const bodies = [...table.tBodies];
  const rows = [...table.querySelectorAll("tr.score")];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const merged = document.createElement("tbody");
  const together = () => Boolean(find("apart")) && !find("apart").checked;
  let sorted = null;

  heads.forEach((head, column) => {
    const button = element("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = head.dataset.type === "number" ? "descending" : "ascending";
      const other = first === "descending" ? "ascending" : "descending";
      const now = head.getAttribute("aria-sort");
      const next = now === first ? other : now === other ? null : first;
      for (const one of heads) one.removeAttribute("aria-sort");
      if (next) head.setAttribute("aria-sort", next);
      sorted = next && { column, type: head.dataset.type, sign: next === "ascending" ? 1 : -1 };
      arrange();
    });
  });

  function compare(a, b) {
    if (sorted) {
      const [x, y] = [a, b].map((row) => row.cells[sorted.column].dataset.key);
      if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // what does not exist comes last
      const way = sorted.type === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      if (way) return sorted.sign * way;
    }
    return a.dataset.place - b.dataset.place;
  }

  function arrange() {
    const order = [...rows].sort(compare);
    const apart = !together();
    if (apart) merged.remove(); else table.append(merged);
    const home = new Map(bodies.map((body) => [body.dataset.kind, body]));
    for (const body of bodies) body.hidden = !apart;
    for (const row of order) {
      const detail = below(row);
      (apart ? home.get(row.dataset.kind) : merged).append(row, ...(detail ? [detail] : []));
    }
    filter();
  }

  // Filters: none pressed of a kind is all of them.
  const buttons = [...document.querySelectorAll("button[data-filter]")];
  const pressed = Object.fromEntries(buttons.map((button) => [button.dataset.filter, new Set()]));
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const chosen = pressed[button.dataset.filter];
      if (!chosen.delete(button.value)) chosen.add(button.value);
      button.setAttribute("aria-pressed", String(chosen.has(button.value)));
      filter();
    });
  }
  find("search").addEventListener("input", filter);
  if (find("apart")) find("apart").addEventListener("change", arrange);
  find("clear").addEventListener("click", showAll);
  find("again").addEventListener("click", showAll);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  find("filters").hidden = false;

  function filter() {
    const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const any = new Set();
    const matches = {};
    let count = 0;
    for (const row of rows) {
      const fits =
        Object.entries(pressed).every(([name, chosen]) => !chosen.size || chosen.has(row.dataset[name])) &&
        words.every((word) => row.dataset.words.includes(word));
      if (fits) matches[row.dataset.kind] = (matches[row.dataset.kind] || 0) + 1;
      const shown = fits && within(row);
      row.hidden = !shown;
      if (shown) any.add(row.dataset.kind);
      const detail = below(row);
      if (detail) detail.hidden = !shown || !opened(row);
      count += shown;
    }
    for (const body of bodies) body.hidden = together() || !any.has(body.dataset.kind);
    find("none").hidden = count > 0 || !rows.length;
    find("count").textContent = `${count} of ${rows.filter(within).length} scores shown`;
    after(matches);
  }

  function showAll() {
    for (const chosen of Object.values(pressed)) chosen.clear();
    for (const button of buttons) button.setAttribute("aria-pressed", "false");
    find("search").value = "";
    filter();
  }

  filter();
  return { table, rows, heads, showAll, filter };
}

function themeButton(button) {
  const dark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered.set(root.dataset.theme);
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
  button.hidden = false;
}

// Elements. Text is always set as text.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
