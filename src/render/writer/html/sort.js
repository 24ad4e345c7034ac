// Sorts a table by the column whose header was chosen, and in reverse the second time.
'use strict';
for (const header of document.querySelectorAll('thead th')) {
  const sort = () => {
    const isAscending = header.ariaSort !== 'ascending';
    for (const other of header.parentNode.cells) other.removeAttribute('aria-sort');
    header.ariaSort = isAscending ? 'ascending' : 'descending';
    const text = (row) => row.cells[header.cellIndex].textContent;
    const body = header.closest('table').tBodies[0];
    const rows = [...body.rows].sort((a, b) => text(a).localeCompare(text(b), 'en', { numeric: true }));
    body.append(...(isAscending ? rows : rows.reverse()));
  };
  header.tabIndex = 0;
  header.title = 'Sort by this column';
  header.addEventListener('click', sort);
  header.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') sort();
  });
}
