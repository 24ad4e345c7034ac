'use strict';
(() => {
  const byId = id => document.getElementById(id);
  const fleet = JSON.parse(byId('fleet').textContent);
  const { machines, questions, groups, differences, answered } = fleet;
  const columns = questions.length;

  // What a cell can show, the least important first.
  const STATES = [
    { words: 'not asked', colour: '--empty', mark: '' },
    { words: 'no answer, as in the whole group', colour: '--unknown', mark: '' },
    { words: 'alone in its group', colour: '--alone', mark: '' },
    { words: 'usual', colour: '--usual', mark: '' },
    { words: 'usual, and unexpected by its own report', colour: '--unexpected', mark: 'U' },
    { words: 'the group is split', colour: '--split', mark: 'S' },
    { words: 'different memory', colour: '--bytes', mark: 'B', ink: '--ink-on-bytes' },
    { words: 'no answer', colour: '--noanswer', mark: 'N' },
    { words: 'different results', colour: '--fact', mark: 'F' },
    { words: 'different verdict', colour: '--verdict', mark: 'V' },
    { words: 'CUDA does not start', colour: '--verdict', mark: 'X' },
  ];
  const [NOT_ASKED, UNKNOWN, ALONE, USUAL, UNEXPECTED, SPLIT, BYTES, NO_ANSWER, FACT, VERDICT, NO_CUDA] = STATES.keys();
  const OF_RANK = { verdict: VERDICT, fact: FACT, no_answer: NO_ANSWER, bytes: BYTES };

  // The cells. A machine may be in several groups; its most important state is shown.
  const cells = new Uint8Array(machines.length * columns);
  const raise = (machine, question, state) => {
    const at = machine * columns + question;
    if (machine < machines.length && question < columns && cells[at] < state) cells[at] = state;
  };
  const groupsOf = machines.map(() => []);
  groups.forEach((group, place) => {
    for (const machine of group.machines) if (groupsOf[machine]) groupsOf[machine].push(place);
    const is_alone = group.machines.length === 1;
    for (const usual of group.usual) {
      const silent = new Set(usual.no_answer), absent = new Set(usual.not_asked);
      for (const machine of group.machines) {
        if (absent.has(machine)) continue;
        raise(machine, usual.question, silent.has(machine) ? UNKNOWN : is_alone ? ALONE : USUAL);
      }
      for (const machine of usual.unexpected) raise(machine, usual.question, UNEXPECTED);
    }
  });
  machines.forEach((machine, place) => {
    if (machine.no_cuda) for (let question = 0; question < columns; question++) raise(place, question, NO_CUDA);
  });
  const differencesOf = machines.map(() => []);
  differences.forEach((difference, place) => {
    const state = difference.split ? SPLIT : OF_RANK[difference.rank];
    for (const machine of difference.machines) {
      raise(machine, difference.question, state);
      if (differencesOf[machine]) differencesOf[machine].push(place);
    }
  });

  // How much differs in a row and in a column: the worst state first, then how often.
  const weight = count => {
    let total = 0;
    for (let state = UNEXPECTED; state <= NO_CUDA; state++) total += count[state] * 4096 ** (state - UNEXPECTED);
    return total;
  };
  const rowWeight = new Float64Array(machines.length), columnCounts = questions.map(() => new Float64Array(STATES.length));
  for (let machine = 0; machine < machines.length; machine++) {
    const count = new Float64Array(STATES.length);
    for (let question = 0; question < columns; question++) {
      const state = cells[machine * columns + question];
      count[state]++;
      columnCounts[question][state]++;
    }
    rowWeight[machine] = weight(count);
  }
  const columnWeight = columnCounts.map(weight);

  const map = byId('map'), sheet = byId('sheet'), canvas = byId('canvas'), where = byId('where');
  const context = canvas.getContext('2d');
  let rows = [], shown = [], size = 18, colours = [], inks = [], line, text, dim, page, cursorColour;
  let cursor = { row: 0, column: 0 }, isDirty = false;

  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue(name).trim();
    colours = STATES.map(state => of(state.colour));
    inks = STATES.map(state => of(state.ink || '--ink'));
    [line, text, dim, page, cursorColour] = ['--line', '--text', '--dim', '--page', '--cursor'].map(of);
  };
  const left = () => map.clientWidth < 500 ? 84 : 170;
  const top = () => size < 12 ? 18 : map.clientWidth < 500 ? 130 : 190;

  const choose = () => {
    const wanted = byId('find-machine').value.toLowerCase(), asked = byId('find-question').value.toLowerCase();
    const only = byId('only').checked, order = byId('order').value;
    const has = machine => !wanted || machine.name.toLowerCase().includes(wanted) ||
      Object.entries(machine.labels || {}).some(([key, value]) => `${key}=${value}`.toLowerCase().includes(wanted));
    rows = [...machines.keys()].filter(place => (!only || rowWeight[place] > 0) && has(machines[place]));
    shown = [...questions.keys()].filter(place => (!only || columnWeight[place] > 0) &&
      (!asked || questions[place].name.toLowerCase().includes(asked)));
    const byName = (a, b) => machines[a].name.localeCompare(machines[b].name, undefined, { numeric: true });
    const byWeight = (a, b) => rowWeight[b] - rowWeight[a];
    const byGroup = (a, b) => (groupsOf[a][0] ?? -1) - (groupsOf[b][0] ?? -1);
    const collator = new Map();
    if (order === 'name') {
      // Comparing names by their numbers is slow; each name is prepared once.
      for (const place of rows) collator.set(place, machines[place].name.replace(/\d+/g, digits => digits.padStart(10, '0')));
      rows.sort((a, b) => collator.get(a) < collator.get(b) ? -1 : collator.get(a) > collator.get(b) ? 1 : byName(a, b));
    } else if (order === 'group') {
      rows.sort((a, b) => byGroup(a, b) || byWeight(a, b) || a - b);
    } else {
      rows.sort((a, b) => byWeight(a, b) || a - b);
    }
    if (order === 'weight') shown.sort((a, b) => columnWeight[b] - columnWeight[a] || a - b);
    size = Number(byId('size').value);
    cursor = { row: Math.min(cursor.row, Math.max(rows.length - 1, 0)), column: Math.min(cursor.column, Math.max(shown.length - 1, 0)) };
    fit();
    tell();
  };

  const fit = () => {
    // A right border that a scroll bar does not cover, and room for the labels of the last columns.
    sheet.style.width = `${left() + shown.length * size + 12}px`;
    sheet.style.height = `${top() + rows.length * size + 12}px`;
    map.style.height = `min(70vh, 44rem, ${top() + Math.max(rows.length, 3) * size + 30}px)`;
    const ratio = window.devicePixelRatio || 1;
    const width = map.clientWidth, height = map.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    request();
  };

  const request = () => {
    if (isDirty) return;
    isDirty = true;
    requestAnimationFrame(() => { isDirty = false; draw(); });
  };

  const shorten = (label, room) => {
    if (context.measureText(label).width <= room) return label;
    let low = 0, high = label.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`…${label.slice(label.length - middle)}`).width <= room) low = middle; else high = middle - 1;
    }
    return `…${label.slice(label.length - low)}`;
  };

  // Only what is in view is drawn, however large the sheet is.
  const draw = () => {
    const ratio = window.devicePixelRatio || 1, width = map.clientWidth, height = map.clientHeight;
    const x0 = left(), y0 = top(), font = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = page;
    context.fillRect(0, 0, width, height);
    const firstRow = Math.floor(map.scrollTop / size), firstColumn = Math.floor(map.scrollLeft / size);
    const lastRow = Math.min(rows.length, firstRow + Math.ceil((height - y0) / size) + 1);
    const lastColumn = Math.min(shown.length, firstColumn + Math.ceil((width - x0) / size) + 1);
    const xOf = column => x0 + column * size - map.scrollLeft, yOf = row => y0 + row * size - map.scrollTop;
    const gap = size > 6 ? 1 : 0;
    context.save();
    context.beginPath();
    context.rect(x0, y0, width - x0, height - y0);
    context.clip();
    for (let row = firstRow; row < lastRow; row++) {
      const base = rows[row] * columns;
      // Neighbours of one colour are one rectangle where there is no gap between them.
      for (let column = firstColumn; column < lastColumn;) {
        const state = cells[base + shown[column]];
        let end = column + 1;
        while (!gap && end < lastColumn && cells[base + shown[end]] === state) end++;
        context.fillStyle = colours[state];
        context.fillRect(xOf(column), yOf(row), (end - column) * size - gap, size - gap);
        column = end;
      }
    }
    if (size >= 12) {
      context.font = `700 11px ${font}`;
      context.textAlign = 'center';
      context.textBaseline = 'middle';
      for (let row = firstRow; row < lastRow; row++) {
        for (let column = firstColumn; column < lastColumn; column++) {
          const state = cells[rows[row] * columns + shown[column]], { mark } = STATES[state];
          if (!mark) continue;
          context.fillStyle = inks[state];
          context.fillText(mark, xOf(column) + (size - gap) / 2, yOf(row) + (size - gap) / 2 + 1);
        }
      }
    }
    if (rows.length && shown.length) {
      context.strokeStyle = cursorColour;
      context.lineWidth = 2;
      context.strokeRect(xOf(cursor.column) - .5, yOf(cursor.row) - .5, size, size);
    }
    context.restore();
    context.font = `12px ${font}`;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    // Where rows are lower than a line of text, only some have a name.
    const every = Math.max(1, Math.ceil(13 / size));
    context.save();
    context.beginPath();
    context.rect(0, y0, x0, height - y0);
    context.clip();
    for (let row = firstRow; row < lastRow; row++) {
      if (row % every) continue;
      context.fillStyle = row === cursor.row ? cursorColour : text;
      context.fillText(shorten(machines[rows[row]].name, x0 - 14), x0 - 7, yOf(row) + size / 2);
    }
    context.restore();
    context.save();
    context.beginPath();
    context.rect(x0, 0, width - x0, y0);
    context.clip();
    if (size >= 12) {
      context.textAlign = 'left';
      for (let column = firstColumn; column < lastColumn; column++) {
        context.save();
        context.translate(xOf(column) + size / 2, y0 - 5);
        context.rotate(-Math.PI / 2);
        context.fillStyle = column === cursor.column ? cursorColour : dim;
        context.fillText(shorten(questions[shown[column]].name.replace(/^[^ ]*\//, ''), y0 - 10), 0, 0);
        context.restore();
      }
    }
    context.restore();
    context.fillStyle = line;
    context.fillRect(x0 - 2, 0, 1, height);
    context.fillRect(0, y0 - 2, width, 1);
    if (!map.dataset.drawn) map.dataset.drawn = Math.round(performance.now());
  };

  // What the cell under the cursor shows, as text for everybody.
  const tell = () => {
    if (!rows.length || !shown.length) {
      where.textContent = 'No machine or no question matches.';
      return;
    }
    const machine = rows[cursor.row], question = shown[cursor.column];
    const state = STATES[cells[machine * columns + question]];
    const found = differencesOf[machine].map(place => differences[place]).filter(it => it.question === question);
    const detail = found.flatMap(it => it.sides.slice(0, 2).map(([of, usual, these]) => `${of}: usual ${usual}, here ${these}`));
    const usual = found.length ? [] : groupsOf[machine].map(place => groups[place].usual.find(it => it.question === question))
      .filter(it => it && it.verdict).slice(0, 1).map(it => it.verdict);
    where.textContent = [`${machines[machine].name}, ${questions[question].name}: ${state.words}`, ...usual, ...detail].join('; ');
  };

  const moveTo = (row, column) => {
    cursor = { row: Math.max(0, Math.min(rows.length - 1, row)), column: Math.max(0, Math.min(shown.length - 1, column)) };
    const x = cursor.column * size, y = cursor.row * size, width = map.clientWidth - left(), height = map.clientHeight - top();
    if (x < map.scrollLeft) map.scrollLeft = x; else if (x + size > map.scrollLeft + width) map.scrollLeft = x + size - width + 12;
    if (y < map.scrollTop) map.scrollTop = y; else if (y + size > map.scrollTop + height) map.scrollTop = y + size - height + 12;
    tell();
    request();
  };

  const differsAt = row => cells[rows[row] * columns + shown[cursor.column]] >= SPLIT;
  const next = step => {
    for (let row = cursor.row + step; row >= 0 && row < rows.length; row += step) if (differsAt(row)) return moveTo(row, cursor.column);
  };
  const onKey = event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    const many = Math.max(1, Math.floor((map.clientHeight - top()) / size) - 1);
    const moves = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-many, 0], PageDown: [many, 0],
      Home: [0, -shown.length], End: [0, shown.length],
    };
    if (moves[event.key]) moveTo(cursor.row + moves[event.key][0], cursor.column + moves[event.key][1]);
    else if (event.key === 'n') next(1);
    else if (event.key === 'p') next(-1);
    else if (event.key === 'Enter') open(machines[rows[cursor.row]].name);
    else return;
    event.preventDefault();
  };
  const at = event => {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const row = Math.floor((y - top() + map.scrollTop) / size), column = Math.floor((x - left() + map.scrollLeft) / size);
    return { row, column, isName: x < left() && y >= top() && row < rows.length, isCell: x >= left() && y >= top() && row < rows.length && column < shown.length };
  };
  const open = name => { location.hash = `machine=${encodeURIComponent(name)}`; };
  const onClick = event => {
    const { row, column, isName, isCell } = at(event);
    if (isName) open(machines[rows[row]].name); else if (isCell) moveTo(row, column);
  };

  // Views: of a machine, and of a difference. Text only ever becomes text.
  const element = (name, content, attributes = {}) => {
    const made = document.createElement(name);
    for (const part of [].concat(content ?? [])) made.append(part);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const machineLink = place => element('a', machines[place]?.name ?? 'unknown', { href: `#machine=${encodeURIComponent(machines[place]?.name ?? '')}` });
  const table = (caption, heads, body) => element('div', element('table', [
    element('caption', caption),
    element('thead', element('tr', heads.map(head => element('th', head, { scope: 'col' })))),
    element('tbody', body.map(row => element('tr', row.map((cell, place) => element('td', cell, { 'data-name': heads[place] }))))),
  ], { class: 'summary differences' }), { class: 'wide' });
  const questionCell = place => {
    const question = questions[place];
    if (!question) return ['unknown'];
    const parts = [question.name];
    if (question.question) parts.push(element('div', question.question, { class: 'dim' }));
    if (question.page) {
      parts.push(element('div', fleet.docs ? element('a', question.page, { href: `${fleet.docs}/${question.page}` }) : question.page, { class: 'dim' }));
    }
    return parts;
  };
  const sides = (difference, side) => difference.sides.map(parts => element('div', [element('span', `${parts[0]}: `, { class: 'dim' }), parts[side]]));
  const back = () => element('p', element('a', 'All machines', { href: '#' }));

  const machineView = place => {
    const machine = machines[place];
    const facts = [...(machine.no_cuda ? [['CUDA', `does not start: ${machine.no_cuda}`]] : []),
      ...(machine.left_out ? [['Not compared', machine.left_out]] : []),
      ...(machine.conflicts || []).map(conflict => ['Conflict', conflict]), ['Groups', groupsOf[place].map(group => groups[group].words).join('; ')],
      ...Object.entries(machine.labels || {}).map(([key, value]) => ['Label', `${key}=${value}`]),
      ['GPUs', machine.gpus.join(', ') || 'none'], ['Reports', machine.reports.join(', ')],
      ['Latest run', machine.started_at + (machine.partial ? ' (partial)' : '')],
      ['Verdicts', Object.entries(machine.verdicts).map(([kind, count]) => `${count} ${kind}`).join(', ')],
      ['Unexpected', `${machine.unexpected} by its own report`],
      ['Answered', `${answered[place][0]} of ${answered[place][1]} questions of its groups`],
      ...(machine.warnings || []).map(warning => ['Doubt', warning])];
    const found = differencesOf[place].map(at => [at, differences[at]]);
    const silent = [...questions.keys()].filter(question => cells[place * columns + question] === UNKNOWN);
    const absent = [...questions.keys()].filter(question => cells[place * columns + question] === NOT_ASKED);
    const isAlone = groupsOf[place].length > 0 && groupsOf[place].filter(group => !groups[group].facts).every(group => groups[group].machines.length === 1);
    const body = found.map(([at, difference]) => [questionCell(difference.question),
      element('a', difference.share, { href: `#difference=${at + 1}` }), sides(difference, 1), sides(difference, 2),
      groups[difference.group]?.words ?? '']);
    return [back(), element('h1', machine.name, { tabindex: '-1' }),
      element('dl', facts.flatMap(([name, value]) => [element('dt', name), element('dd', value)])),
      element('h2', 'What differs from what is usual in its group'),
      found.length ? table('The most important first.', ['Question', 'Differs in', 'Usual', 'Here', 'Group'], body)
        : element('p', machine.no_cuda ? 'CUDA does not start on it.' : isAlone ? 'It is alone in its group: its answers are compared with none.' : `Nothing, in the ${answered[place][0]} questions that it answered.`),
      ...list('Without an answer, as in the whole group', silent), ...list('Not asked here', absent)];
  };
  const list = (title, places) => places.length
    ? [element('details', [element('summary', `${title}: ${places.length}`), element('p', places.map(place => questions[place].name).join(', '), { class: 'list' })])] : [];

  const differenceView = difference => [back(), element('h1', questions[difference.question]?.name ?? 'unknown', { tabindex: '-1' }),
    element('p', questionCell(difference.question).slice(1)),
    element('p', `${difference.share} in ${groups[difference.group]?.words ?? 'an unknown group'}`),
    table('Both sides.', ['About', `Usual (${difference.usual} machines)`, `These (${difference.machines.length})`],
      difference.sides.map(([of, usual, these]) => [of, usual, these])),
    element('h2', difference.machines.length === 1 ? 'The machine' : `The ${difference.machines.length} machines`),
    element('p', difference.machines.flatMap((place, at) => at ? [', ', machineLink(place)] : [machineLink(place)]), { class: 'list' })];

  const byName = new Map();
  machines.forEach((machine, place) => { if (!byName.has(machine.name)) byName.set(machine.name, place); });
  const decoded = text => { try { return decodeURIComponent(text); } catch { return text; } };
  let scrolled = 0;
  const route = () => {
    const [what, value] = [location.hash.slice(1).split('=', 1)[0], decoded(location.hash.slice(1).split('=').slice(1).join('='))];
    const overview = byId('overview'), view = byId('view');
    let content = null;
    if (what === 'machine') {
      content = byName.has(value) ? machineView(byName.get(value)) : [back(), element('h1', 'Unknown machine', { tabindex: '-1' }), element('p', `There is no machine ${value} in this fleet.`)];
    } else if (what === 'difference' && differences[Number(value) - 1]) {
      content = differenceView(differences[Number(value) - 1]);
    }
    if (content) {
      if (!overview.hidden) scrolled = window.scrollY;
      view.replaceChildren(...content);
      overview.hidden = true;
      view.hidden = false;
      window.scrollTo(0, 0);
      view.querySelector('h1').focus();
    } else {
      const wasHidden = overview.hidden;
      view.hidden = true;
      overview.hidden = false;
      if (wasHidden) window.scrollTo(0, scrolled);
      fit();
    }
  };

  byId('key').append(...STATES.map(state => {
    const box = element('span', state.mark);
    box.style.background = `var(${state.colour})`;
    box.style.color = `var(${state.ink || '--ink'})`;
    return element('li', [box, state.words]);
  }));
  for (const id of ['tools', 'key', 'map', 'how']) byId(id).hidden = false;
  readColours();
  for (const id of ['find-machine', 'find-question', 'order', 'size', 'only']) byId(id).addEventListener('input', () => { map.scrollTop = map.scrollLeft = 0; choose(); });
  map.addEventListener('scroll', request, { passive: true });
  map.addEventListener('keydown', onKey);
  canvas.addEventListener('click', onClick);
  new ResizeObserver(fit).observe(map);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); request(); });
  window.addEventListener('hashchange', route);
  choose();
  draw();
  route();
})();
