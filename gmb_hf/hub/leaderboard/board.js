// The pages of the leaderboard: a table that sorts, or the charts of a score.
document.addEventListener("DOMContentLoaded", () => {
  themeButton(document.getElementById("theme"));
  if (document.getElementById("table")) arrangeTable();
  const data = document.getElementById("data");
  const pages = data ? JSON.parse(data.textContent) : [];
  for (const box of document.querySelectorAll(".cards[data-entry]")) {
    const page = pages[box.dataset.entry];
    box.append(...charts(page.score, page, box.clientWidth));
  }
});
