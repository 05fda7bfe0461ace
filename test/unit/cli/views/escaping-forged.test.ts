/**
 * What whoever may write to the namespace can say in the name of a worker or a run: completions, heartbeats, answers of
 * queries. None of it reaches a terminal as anything but visible text (DESIGN §4).
 */
import { describe, expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { requestsAnswer } from '../../../../cli/verbs/requests.ts';
import { entryText } from '../../../../cli/views/ledger.ts';
import { requestText } from '../../../../cli/views/request.ts';
import { heldText, progressText, stateText, taskText } from '../../../../cli/views/run.ts';
import type { CallProgress } from '../../../../client/index.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { ledgerOf, openedFact } from '../../../support/builders/ledger.ts';
import { outcomePause } from '../../../support/builders/pause.ts';
import { runState } from '../../../support/builders/run.ts';

/** Names the window, clears the screen, colours in C1, reverses the text. */
const HOSTILE = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eevil';
/** All that a terminal acts on, or does not show. */
const ACTIVE = /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u;
const AT = '2026-01-01T00:10:00.000Z';
const NOW = Date.parse(AT);

test('how far a call has come', () => {
  // Sound: whoever sends it also sends what is no number.
  const odd = { callId: HOSTILE, sentAt: HOSTILE, progress: HOSTILE, total: HOSTILE } as unknown as CallProgress;
  expect(progressText(odd)).not.toMatch(ACTIVE);
  expect(progressText({ ...odd, callId: 't1.c0', progress: 1, total: 2 })).toContain('since \\u{1b}]0;owned');
});

test('what is known of a call whose outcome is not', () => {
  const hostile = outcomePause({ sentAt: HOSTILE, message: HOSTILE, token: { strategy: 'none', jti: HOSTILE } });
  // Sound: as above.
  const about = { ...hostile, bytes: HOSTILE, lastProgress: HOSTILE, attempt: HOSTILE } as unknown as typeof hostile;
  const text = requestText({ ...approvalRequest(), about }, { full: true, now: NOW }, plain);
  expect(text).not.toMatch(ACTIVE);
  expect(text).toMatch(/^ {2}sent at +\\u\{1b\}\]0;owned/m);
});

test('what is held back, or worked on as a task', () => {
  const call = { callId: HOSTILE, server: HOSTILE, tool: HOSTILE, since: HOSTILE, next: HOSTILE };
  expect(taskText({ ...call, until: HOSTILE, polls: 1, message: HOSTILE })).not.toMatch(ACTIVE);
  expect(heldText({ ...call, by: 'rate', because: HOSTILE })).not.toMatch(ACTIVE);
});

test('ids and times of a request', () => {
  const by = { id: HOSTILE, groups: [] };
  const request: ApprovalRequest = {
    ...approvalRequest(),
    callId: HOSTILE,
    digest: HOSTILE,
    openedAt: HOSTILE,
    deadline: HOSTILE,
    remindedAt: HOSTILE,
    escalatedAt: HOSTILE,
    grantExpiresAt: HOSTILE,
    edited: { by: HOSTILE, at: HOSTILE, proposed: { [HOSTILE]: HOSTILE } },
    extensions: [{ approver: by, at: HOSTILE, until: HOSTILE }],
    votes: [{ approver: by, at: HOSTILE }],
    decidedBy: by,
    decidedAt: HOSTILE,
    redact: [HOSTILE],
    standing: HOSTILE,
    explain: [{ rule: HOSTILE, text: HOSTILE }],
  };
  expect(requestsAnswer(HOSTILE, [request], {}).text(plain)).not.toMatch(ACTIVE);
  expect(requestsAnswer(HOSTILE, [{ ...request, status: 'expired' }], {}).text(plain)).not.toMatch(ACTIVE);
});

test('ids and times of a run', () => {
  const named = { callId: HOSTILE, server: HOSTILE, at: HOSTILE };
  const state = runState({
    workflowId: HOSTILE,
    runId: HOSTILE,
    because: HOSTILE,
    nextDeadline: HOSTILE,
    ledgerHead: HOSTILE,
    grantEnds: [named],
    standing: [{ ...named, standing: HOSTILE, tool: HOSTILE, scope: 'call', until: HOSTILE, by: [HOSTILE] }],
  });
  expect(stateText(state, NOW, plain)).not.toMatch(ACTIVE);
});

test('times of a ledger', () => {
  const [entry] = ledgerOf([openedFact({ callId: HOSTILE, digest: HOSTILE, deadline: HOSTILE })]);
  if (entry === undefined) throw new Error('no entry');
  expect(entryText({ ...entry, at: HOSTILE }, plain)).not.toMatch(ACTIVE);
});

describe('edited, answered and remembered calls (F26)', () => {
  test('facts of decisions that stand', () => {
    const facts: LedgerFact[] = [
      {
        kind: 'standing.made',
        standing: HOSTILE,
        callId: 't1.c0',
        scope: 'arguments',
        names: [HOSTILE],
        by: [HOSTILE],
      },
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
});
