// Each table sorts by the column whose heading is pressed: down, up, then as it was. A table with
// headings between its rows keeps its order.
document.addEventListener("DOMContentLoaded", () => {
  themeButton(document.getElementById("theme"));
  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.querySelector("tr.heading")) continue;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      sortable(head, () => {
        const now = head.getAttribute("aria-sort");
        const next = now === "descending" ? "ascending" : now === "ascending" ? null : "descending";
        for (const one of heads) one.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        const key = (row) => row.cells[column].dataset.key;
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // what does not exist comes last
          const numbers = head.dataset.type === "number" && !isNaN(x) && !isNaN(y);
          return sign * (numbers ? x - y : x.localeCompare(y, "en", { numeric: true }));
        };
        body.append(...(next ? [...rows].sort(compare) : rows));
      });
    });
  }
});
