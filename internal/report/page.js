// Sorting is a convenience: without this script the page is complete.
for (const table of document.querySelectorAll("table.results")) {
  const body = table.tBodies[0];
  const value = (row, i) => row.cells[i].textContent.trim();
  const number = (s) => parseFloat(s.replace(/\u2212/g, "-").replace(/[^0-9.eE+-]/, ""));
  [...table.tHead.rows[0].cells].forEach((th, i) => {
    const button = document.createElement("button");
    button.append(...th.childNodes);
    button.title = "Sort by this column";
    th.append(button);
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") !== "ascending";
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const numeric = th.classList.contains("number");
      const rows = [...body.rows];
      rows.sort((a, b) => {
        const x = value(a, i), y = value(b, i);
        if (!numeric) return up ? x.localeCompare(y) : y.localeCompare(x);
        const m = number(x), n = number(y);
        if (isNaN(m) || isNaN(n)) return isNaN(m) - isNaN(n); // gaps last, both ways
        return up ? m - n : n - m;
      });
      body.append(...rows);
    });
  });
}
