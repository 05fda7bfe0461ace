/** `countersign show`: how close a run is to its limits, and what it has spent. */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { stateText } from '../../../../cli/views/run.ts';
import { runState } from '../../../support/builders/run.ts';

const NOW = Date.parse('2026-01-01T00:10:00.000Z');
const state = runState({ workflowId: 'nightly', status: 'thinking', pending: 0 });

test('a run is shown with its limits, and what its steps cost', () => {
  const text = stateText(
    {
      ...state,
      spent: { millionths: 12_300, currency: 'EUR' },
      limits: {
        turns: { used: 3, most: 100 },
        calls: { used: 2, most: 1_000 },
        tokens: { used: 24, most: 5_000 },
        spend: { used: 12_300, most: 5_000_000 },
        endsBy: '2026-01-31T00:00:00.000Z',
      },
    },
    NOW,
    plain,
  );
  expect(text).toMatch(/spent +0\.0123 EUR/);
  expect(text).toMatch(
    /limits +3 of 100 turns, 2 of 1000 calls, 24 of 5000 tokens, 0\.0123 of 5\.00 spent, ends by 2026-01-31/,
  );
});

test('a run without a price or a checked spec shows neither; one that was limited says by what', () => {
  const text = stateText({ ...state, status: 'limited', because: 'spend' }, NOW, plain);
  expect(text).toMatch(/^nightly {2}limited: spend\n/);
  expect(text).not.toMatch(/spent|limits/);
});

test('a call that waits for its server says for what, since when, and when it asks again; nothing of it moves the cursor', () => {
  const text = stateText(
    {
      ...state,
      status: 'acting',
      held: [
        {
          callId: 't3.c0',
          server: 'tickets',
          tool: 'close\u001b[2J',
          by: 'breaker',
          because: 'Server "tickets" failed again and again, and is left alone for a while.',
          since: '2026-01-01T00:09:00.000Z',
          next: '2026-01-01T00:10:12.000Z',
        },
      ],
    },
    NOW,
    plain,
  );
  expect(text).toMatch(
    /held back +t3\.c0 tickets\/"close.*" since 2026-01-01 00:09:00Z, asks again at 2026-01-01 00:10:12Z: Server "tickets" failed again/,
  );
  expect(text).not.toContain('\u001b');
});

test('a call that its server works on as a task says how far it is, in the words of the server', () => {
  const task = {
    callId: 't3.c0',
    server: 'mine',
    tool: 'dig\u001b[2J',
    since: '2026-01-01T00:09:00.000Z',
    next: '2026-01-01T00:10:12.000Z',
    until: '2026-01-01T01:09:00.000Z',
    polls: 3,
  };
  const text = stateText(
    { ...state, status: 'acting', tasks: [{ ...task, message: 'half\u001b[2J way' }] },
    NOW,
    plain,
  );
  expect(text).toMatch(
    /task +t3\.c0 mine\/"dig.*" since 2026-01-01 00:09:00Z, asked again at 2026-01-01 00:10:12Z, given up at 2026-01-01 01:09:00Z: half.* way/,
  );
  expect(text).not.toContain('\u001b');
  expect(stateText({ ...state, status: 'acting', tasks: [task] }, NOW, plain)).toMatch(
    /given up at 2026-01-01 01:09:00Z\n?/,
  );
});
