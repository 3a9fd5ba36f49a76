document.addEventListener("DOMContentLoaded", () => {
  const page = JSON.parse(document.getElementById("data").textContent);
  themeButton(document.getElementById("theme"));

  const details = new Map();
  const openers = new Map();
  const showRuns = arrangeRuns(page);
  const { rows, width, showAll } = arrangeTable(
    (row) => details.get(row), (row) => openers.get(row).isOpen());

  // A score opens below its row; its details are drawn when it is first opened.
  for (const row of rows) openers.set(row, makeOpener(row));

  function makeOpener(row) {
    const place = row.dataset.place;
    const name = row.cells[0].querySelector(".name");
    const button = element("button", { type: "button", "aria-expanded": "false" });
    name.replaceWith(button);
    button.append(name);
    const isOpen = () => button.getAttribute("aria-expanded") === "true";
    const toggle = (open) => {
      if (open && !details.has(row)) {
        const cell = element("td", { colspan: String(width()) });
        const detail = element("tr", { class: "detail", id: `detail-${place}` }, cell);
        details.set(row, detail);
        row.after(detail);
        const table = row.closest("table");
        const room = Math.min(table.parentElement.clientWidth, table.clientWidth || Infinity);
        cell.append(opened(page.scores[place], page, room));
        if (showRuns) cell.firstChild.prepend(runsButton(Number(place)));
        button.setAttribute("aria-controls", detail.id);
      }
      button.setAttribute("aria-expanded", String(open));
      if (details.has(row)) details.get(row).hidden = !open;
    };
    button.addEventListener("click", () => {
      toggle(!isOpen());
      const hash = isOpen() ? `#score-${place}` : " ";
      try { history.replaceState(null, "", hash); } catch { /* a page without an address */ }
    });
    return { isOpen, toggle };
  }

  function runsButton(place) {
    const button = element("button", { type: "button", class: "to-runs" }, "Its runs as curves");
    button.addEventListener("click", () => showRuns(place));
    return button;
  }

  function followHash() {
    const row = rows.find((one) => `#${one.id}` === location.hash);
    if (!row) return;
    if (row.hidden) showAll();
    const part = row.closest("details");
    if (part) part.open = true;
    openers.get(row).toggle(true);
    row.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", followHash);
  // A link to the score that the address names already.
  for (const link of document.querySelectorAll('a[href^="#score-"]')) {
    link.addEventListener("click", () => setTimeout(followHash));
  }
  followHash();

  // On paper everything that is folded is opened, but for the scores.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")].filter((one) => !one.closest(".opened"));
    for (const one of unfolded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of unfolded) one.open = false; });
});
