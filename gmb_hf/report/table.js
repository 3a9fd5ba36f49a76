"use strict";

// The theme is chosen before anything is painted; a page from a file may have no storage.
const root = document.documentElement;
const remembered = {
  get() { try { return localStorage.getItem("gmb-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("gmb-theme", value); } catch { /* not remembered */ } },
};
if (["light", "dark"].includes(remembered.get())) root.dataset.theme = remembered.get();
root.classList.add("js");

// The tables of scores are sorted within each class, or all classes together where `#apart` says so;
// `#filters` choose their rows. Below a row stays what `below(row)` gives, if `opened(row)`. Only rows
// that are `within` are shown; `after` is told how many match of each class, shown or not.
function arrangeTable(below = () => null, opened = () => false, within = () => true, after = () => {}) {
  const find = (id) => document.getElementById(id);
  const tables = [...document.querySelectorAll("table.scores")].map((table) => {
    const bodies = [...table.tBodies];
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    const rows = [...table.querySelectorAll("tr.score")];
    return { table, bodies, heads, rows, merged: document.createElement("tbody") };
  });
  const rows = tables.flatMap((one) => one.rows);
  const home = new Map(rows.map((row) => [row, row.parentNode]));
  const together = () => Boolean(find("apart")) && !find("apart").checked;
  let sorted = null;

  // A click anywhere in a heading sorts, best first: the other way round, then as it was.
  for (const { heads } of tables) heads.forEach((head, column) => sortable(head, () => {
    const first = head.dataset.best || (head.dataset.type === "number" ? "descending" : "ascending");
    const other = first === "descending" ? "ascending" : "descending";
    const now = head.getAttribute("aria-sort");
    const next = now === first ? other : now === other ? null : first;
    for (const table of tables) {
      for (const one of table.heads) one.removeAttribute("aria-sort");
      if (next) table.heads[column].setAttribute("aria-sort", next);
    }
    sorted = next && { column, type: head.dataset.type, sign: next === "ascending" ? 1 : -1 };
    arrange();
  }));

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
    const apart = !together();
    for (const { table, merged, rows: own } of tables) {
      if (apart) merged.remove(); else table.append(merged);
      for (const row of [...own].sort(compare)) {
        const detail = below(row);
        (apart ? home.get(row) : merged).append(row, ...(detail ? [detail] : []));
      }
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
      if (shown) any.add(home.get(row));
      const detail = below(row);
      if (detail) detail.hidden = !shown || !opened(row);
      count += shown;
    }
    const chosen = words.length > 0 || Object.values(pressed).some((one) => one.size);
    for (const { table, bodies } of tables) {
      for (const body of bodies) body.hidden = together() || !any.has(body);
      const matches = bodies.some((body) => any.has(body));
      table.parentNode.hidden = chosen && !matches;
      // What is asked for is shown, in a part that was folded too.
      const part = table.closest("details");
      if (part) {
        part.hidden = chosen && !matches;
        if (chosen && !part.open) part.open = part.wasFolded = true;
        else if (!chosen && part.wasFolded) part.open = part.wasFolded = false;
      }
    }
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

  // The columns by windows are folded where there are others.
  const byWindows = find("by-windows");
  const width = () => (tables.length && byWindows && !byWindows.checked
    ? tables[0].heads.filter((head) => !head.classList.contains("windows")).length
    : tables.length ? tables[0].heads.length : 0);
  function fold() {
    for (const { table } of tables) {
      table.classList.toggle("folded", Boolean(byWindows) && !byWindows.checked);
      for (const cell of table.querySelectorAll("tr.heading > th, tr.detail > td")) cell.colSpan = width();
    }
  }
  if (byWindows) byWindows.addEventListener("change", fold);

  fold();
  filter();
  return { rows, width, showAll, filter };
}

// A heading that a click anywhere in it, or its button by the keyboard, sorts by.
function sortable(head, sort) {
  head.replaceChildren(element("button", { type: "button" }, head.textContent));
  head.classList.add("sorts");
  head.addEventListener("click", sort);
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
