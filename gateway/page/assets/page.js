// Makes the pages live: they follow what happens, count times, and obey keys. Everything works without this file.

const main = document.querySelector('#main');
const notice = document.querySelector('#notice');
const state = document.querySelector('#link-state');

// Times

const UNITS = /** @type {const} */ ([
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
]);

/** @param {number} seconds @param {number} [most] units */
function span(seconds, most = 2) {
  const first = UNITS.findIndex(([size]) => seconds >= size);
  if (first < 0) return '0 s';
  let left = seconds;
  const parts = [];
  for (const [size, unit] of UNITS.slice(first, first + most)) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
  }
  return parts.join(' ');
}

function countTimes() {
  for (const time of document.querySelectorAll('time[data-count]')) {
    const at = Date.parse(time.getAttribute('datetime') ?? '');
    const rest = Math.round((at - Date.now()) / 1_000);
    if (time.getAttribute('data-count') === 'ago') time.textContent = `${span(Math.max(0, -rest), 1)} ago`;
    else {
      time.textContent = rest <= 0 ? 'expired' : `${span(rest)} left`;
      time.className = `left ${rest <= 0 ? 'over' : rest < 600 ? 'urgent' : rest < 3_600 ? 'soon' : 'calm'}`;
    }
  }
}
setInterval(countTimes, 1_000);

// Changes

let isLoading = false;
let isStale = false;
/** True once nobody is signed in: nothing is asked any more. */
let isOver = false;
/** @type {EventSource | undefined} */
let events;

/** Status with which the gateway refuses who asks too often. */
const TOO_OFTEN = 429;

/** A gateway that is away is asked less and less often, and not by all pages at once. */
const LEAST_PAUSE_MS = 1_000;
const MOST_PAUSE_MS = 8_000;
/** Before the page is loaded again. */
let pauseMs = LEAST_PAUSE_MS;
/** An answer that never comes must not keep a page from following, while it says that it is live. */
const MOST_LOADING_MS = 30_000;
/** Before a new stream of events is opened. */
let reopenMs = LEAST_PAUSE_MS;

/** @param {number} ms */
function longer(ms) {
  return Math.min(MOST_PAUSE_MS, ms * (1.5 + Math.random()));
}

/** @param {string} why */
function tryAgain(why) {
  tell(why);
  isStale = true;
  pauseMs = longer(pauseMs);
}

/** @param {string} url */
function listen(url) {
  const opened = new EventSource(url);
  events = opened;
  opened.addEventListener('change', () => void follow());
  opened.addEventListener('error', () => {
    if (isOver) return;
    tell(LOST);
    // A lost connection it opens again by itself. Any answer but 200 ends it for good (WHATWG HTML §9.2.3).
    if (opened.readyState !== EventSource.CLOSED) return;
    reopenMs = longer(reopenMs);
    setTimeout(() => reopen(url), reopenMs);
  });
}

/** The page is loaded, too: it knows whether the session is over. @param {string} url */
function reopen(url) {
  if (isOver) return;
  listen(url);
  void follow();
}

function end() {
  isOver = true;
  events?.close();
  tell('This page follows nothing any more.');
  say('You are signed out. ', 'Sign in again', location.href);
}

/** Returns undefined if the connection was lost. */
async function load() {
  try {
    const signal = AbortSignal.timeout(MOST_LOADING_MS);
    const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'manual', signal });
    return { answer, text: await answer.text() };
  } catch {
    return undefined;
  }
}

/** True while somebody types, chooses or has a form half filled: nothing may vanish under their hands. */
function isBusy() {
  const typed = [...document.querySelectorAll('main textarea, main select, main input:not([type=hidden])')];
  return typed.some((field) => {
    if (field instanceof HTMLSelectElement) return field.dataset['changed'] === 'yes';
    return field instanceof HTMLInputElement && (field.type === 'checkbox' || field.type === 'radio')
      ? field.checked !== field.defaultChecked
      : /** @type {HTMLInputElement} */ (field).value !== /** @type {HTMLInputElement} */ (field).defaultValue;
  });
}

document.addEventListener('change', ({ target }) => {
  if (target instanceof HTMLSelectElement) target.dataset['changed'] = 'yes';
});

async function follow() {
  if (isOver) return;
  if (isLoading || main === null) {
    isStale = true;
    return;
  }
  isLoading = true;
  isStale = false;
  try {
    const loaded = await load();
    if (loaded === undefined) {
      tryAgain(LOST);
      return;
    }
    const { answer, text } = loaded;
    // Only the sign-in redirects, and no page signs in by itself.
    if (answer.type === 'opaqueredirect') {
      end();
      return;
    }
    const next = new DOMParser().parseFromString(text, 'text/html');
    const fresh = next.querySelector('#main');
    // A page of the fault would stay, and so would this one without another try: nothing need change again.
    if (fresh === null || answer.status >= 500 || answer.status === TOO_OFTEN) {
      tryAgain('No answer; trying again.');
      return;
    }
    pauseMs = LEAST_PAUSE_MS;
    show(main, fresh, next.title);
    if (events?.readyState !== EventSource.OPEN) return;
    reopenMs = LEAST_PAUSE_MS;
    tell(LIVE);
  } finally {
    setTimeout(() => {
      isLoading = false;
      if (isStale) void follow();
    }, pauseMs);
  }
}

/** Puts a page in, or says why it is not. @param {Element} old @param {Element} fresh @param {string} title */
function show(old, fresh, title) {
  if (contentOf(fresh) === contentOf(old)) return;
  if (digestsOf(fresh) !== '' && digestsOf(old) !== '' && digestsOf(fresh) !== digestsOf(old)) {
    // Somebody may be about to press a button: what it answers must not change under the hand. Other forms stay usable.
    for (const button of answersOf(old)) button.disabled = true;
    say('What is asked has changed. ', 'Look at it again', location.href);
    return;
  }
  if (isBusy()) {
    say('This page has changed. ', 'Load it again', location.href);
    return;
  }
  const open = new Map(foldsOf(old).map(([name, fold]) => [name, fold.open]));
  const focused = nameOf(document.activeElement);
  const isNew = digestsOf(old) === '';
  old.replaceChildren(...fresh.childNodes);
  for (const [name, fold] of foldsOf(old)) fold.open = open.get(name) ?? fold.open;
  focusAgain(focused);
  if (isNew) holdBack(answersOf(old));
  document.title = title;
  countTimes();
  mark();
}

/**
 * What a reader would notice, and the version with which forms are sent: an older one would be refused. Times count by
 * themselves, and each form has an id of its own.
 * @param {Element} part
 */
function contentOf(part) {
  const copy = /** @type {Element} */ (part.cloneNode(true));
  for (const each of copy.querySelectorAll('time[data-count], input[name=decisionId], input[name=messageId]'))
    each.remove();
  for (const each of copy.querySelectorAll('.note time')) each.remove();
  for (const each of copy.querySelectorAll('[open], .here')) {
    each.removeAttribute('open');
    each.classList.remove('here');
  }
  return copy.textContent + digestsOf(copy) + valuesOf(copy, 'input[name=version]');
}

/** What the forms of a page answer: requests, changes of catalogs, definitions. */
const DIGESTS = 'input[name=digest], input[name=definition]';

/** @param {Element} part */
function digestsOf(part) {
  return valuesOf(part, DIGESTS);
}

/** Buttons that answer what a page shows. @param {Element} part */
function answersOf(part) {
  return [...part.querySelectorAll(DIGESTS)].flatMap((field) => [
    ...(field.closest('form')?.querySelectorAll('button') ?? []),
  ]);
}

/** A hand that was about to press what stood there would press these. @param {HTMLButtonElement[]} buttons */
function holdBack(buttons) {
  const held = buttons.filter((button) => !button.disabled);
  for (const button of held) button.disabled = true;
  setTimeout(() => held.forEach((button) => (button.disabled = false)), 500);
}

/** @param {Element} part @param {string} fields */
function valuesOf(part, fields) {
  return [...part.querySelectorAll(fields)].map((each) => each.getAttribute('value')).join();
}

/** Folds with their names, which stay theirs where others come before them. @param {Element} part */
function foldsOf(part) {
  const seen = /** @type {Map<string, number>} */ (new Map());
  return [...part.querySelectorAll('details')].map((fold) => {
    const words = fold.querySelector('summary')?.textContent ?? '';
    const before = seen.get(words) ?? 0;
    seen.set(words, before + 1);
    return /** @type {const} */ ([`${words} ${before}`, fold]);
  });
}

const FOCUSABLE = 'a, button, summary, input, select, textarea';

/** What somebody who has the focus would call the place. @param {Element | null} place */
function nameOf(place) {
  if (place === null || main?.contains(place) !== true) return undefined;
  const label = place.getAttribute('aria-label') ?? [place.getAttribute('href'), place.getAttribute('name')].join();
  const form = place.closest('form')?.getAttribute('action');
  return JSON.stringify([place.tagName, label, form, place.children.length === 0 && place.textContent]);
}

/** @param {string | undefined} name */
function focusAgain(name) {
  if (name === undefined) return;
  const found = [...document.querySelectorAll(FOCUSABLE)].find((each) => nameOf(each) === name);
  if (found instanceof HTMLElement) found.focus({ preventScroll: true });
}

/** @param {string} text @param {string} link @param {string} to */
function say(text, link, to) {
  if (notice === null) return;
  const anchor = document.createElement('a');
  anchor.href = to;
  anchor.textContent = link;
  notice.replaceChildren(text, anchor);
}

const LIVE = 'Live: this page follows what happens.';
const LOST = 'No connection; trying again.';

/** @param {string} text */
function tell(text) {
  if (state !== null) state.textContent = text;
}

const live = document.body.dataset['live'];
if (live !== undefined) listen(live);

// Sending twice counts once anyway; a button that was pressed says so.
document.addEventListener('submit', (event) => {
  const { submitter } = event;
  if (submitter instanceof HTMLButtonElement) setTimeout(() => (submitter.disabled = true));
});

// Keys

let at = -1;

function rows() {
  return /** @type {HTMLElement[]} */ ([...document.querySelectorAll('[data-row]')]);
}

function mark() {
  rows().forEach((row, index) => row.classList.toggle('here', index === at));
  rows()[at]?.scrollIntoView({ block: 'nearest' });
}

document.addEventListener('keydown', (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input:not([type=checkbox]), textarea, select'))
    return;
  const count = rows().length;
  switch (event.key) {
    case 'j':
      at = Math.min(count - 1, at + 1);
      mark();
      break;
    case 'k':
      at = Math.max(0, at - 1);
      mark();
      break;
    case 'Enter': {
      if (target.closest('a, button, summary, input')) return;
      const link = rows()[at]?.querySelector('a');
      if (link instanceof HTMLElement) link.click();
      break;
    }
    case 'x': {
      const box = rows()[at]?.querySelector('input[type=checkbox]');
      if (box instanceof HTMLInputElement) box.checked = !box.checked;
      break;
    }
    case 'a':
      focusOn('[data-key=a]');
      break;
    case 'r':
      focusOn('[data-focus=r]');
      break;
    case 'i':
      location.assign('/');
      break;
    default:
      return;
  }
  event.preventDefault();
});

/** A key never decides by itself: it moves to what Enter then presses. @param {string} selector */
function focusOn(selector) {
  const found = document.querySelector(selector);
  if (found instanceof HTMLElement) found.focus();
}
