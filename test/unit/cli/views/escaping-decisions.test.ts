/** What is shown of edited, answered and remembered calls is inert (F26, DESIGN §4). */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { entryText } from '../../../../cli/views/ledger.ts';
import { requestText } from '../../../../cli/views/request.ts';
import { stateText } from '../../../../cli/views/run.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { ledgerOf } from '../../../support/builders/ledger.ts';
import { runState } from '../../../support/builders/run.ts';

const HOSTILE = '\u001b[2J\u009b31m\rgood\u202eevil\u200b\u0007';
/** All that a terminal acts on, or does not show. */
const ACTIVE = /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u;
const AT = '2026-01-01T00:10:00.000Z';
const NOW = Date.parse(AT);

test('facts of decisions that stand', () => {
  const facts: LedgerFact[] = [
    { kind: 'standing.made', standing: HOSTILE, callId: 't1.c0', scope: 'arguments', names: [HOSTILE], by: [HOSTILE] },
    { kind: 'standing.made', standing: HOSTILE, callId: 't1.c0', scope: 'tool', until: HOSTILE, by: [HOSTILE] },
    { kind: 'standing.used', standing: HOSTILE, callId: 't1.c0' },
    { kind: 'standing.forgotten', standing: HOSTILE, by: HOSTILE, because: HOSTILE },
    { kind: 'standing.forgotten', standing: HOSTILE },
  ];
  for (const entry of ledgerOf(facts)) {
    const line = entryText(entry, plain);
    expect(line).not.toMatch(ACTIVE);
    expect(line).not.toContain('\n');
    expect(line).toContain(entry.fact.kind);
  }
});

test('a request that was edited, and one that was answered by what stands', () => {
  const edited = { by: HOSTILE, at: AT, proposed: { path: HOSTILE } };
  const text = requestText({ ...approvalRequest(), edited, standing: HOSTILE }, { full: true, now: NOW }, plain);
  expect(text).not.toMatch(ACTIVE);
  expect(text).toContain('proposed were');
  expect(text).toContain('answered by');
});

test('a run in which something stands', () => {
  const one = { standing: HOSTILE, callId: 't1.c0', server: 'files', tool: HOSTILE, by: [HOSTILE], at: AT };
  const state = runState({
    standing: [
      { ...one, scope: 'arguments', arguments: { path: HOSTILE }, until: AT },
      { ...one, scope: 'tool' },
    ],
  });
  const text = stateText(state, NOW, plain);
  expect(text).not.toMatch(ACTIVE);
  expect(text.split('stands')).toHaveLength(3);
});
