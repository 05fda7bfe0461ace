/** The JSON Schemas in docs/schema/ say what the contracts say, to somebody who has only them. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { type Schema, Validator } from '@cfworker/json-schema';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { catalogDecision, catalogEntry, catalogSnapshot, connection, listing } from '../../support/builders/catalog.ts';
import { approval, rejection, say, stop } from '../../support/builders/decision.ts';
import { allowVerdict, askVerdict, denyVerdict } from '../../support/builders/judgement.ts';
import { ledgerOf, saidFact } from '../../support/builders/ledger.ts';
import { conversation } from '../../support/builders/message.ts';
import { outcomes } from '../../support/builders/outcome.ts';
import { runState } from '../../support/builders/run.ts';
import { runSpecInput } from '../../support/builders/run-spec.ts';
import { toolDefinition } from '../../support/builders/tool.ts';

const HASH = 'a'.repeat(64);
const AT = '2026-01-01T00:00:00.000Z';
const usage = { inputTokens: 1, outputTokens: 2 };
const entries = ledgerOf([saidFact()]);
const message = { requestId: 'r-1', by: { id: 'ann' } };
const listed = { connection: connection(), listings: { 1: listing(1) } };

/** File name → values that it must take. */
const VALID: Readonly<Record<string, readonly object[]>> = {
  'run-spec': [
    runSpecInput(),
    runSpecInput({
      servers: [{ name: 'files', url: 'https://files.example/mcp' }],
      policy: { strategy: 'annotations' },
    }),
  ],
  decision: [approval({ comment: 'fine' }), rejection(), { ...approval(), approver: { id: 'ann' } }],
  say: [say()],
  forget: [
    { standing: 'd-1', by: { id: 'ann' } },
    { standing: 'd-1', by: { id: 'ann', groups: ['ops'] }, comment: '' },
  ],
  stop: [stop(), { by: 'ann', reason: 'enough' }],
  policy: [
    {},
    {
      strategy: 'never',
      servers: { files: { default: 'ask', tools: { 'issue.get': 'allow', drop: { action: 'deny' } } } },
    },
  ],
  'catalog-connect': [
    { ...message, url: 'https://files.example/mcp' },
    { ...message, url: 'http://127.0.0.1:1/', credentials: 'vault', trusted: true, taskQueue: 'q', expectedVersion: 0 },
  ],
  'catalog-refresh': [message],
  'set-tool-policies': [
    {
      ...message,
      expectedVersion: 1,
      changes: [{ tool: 'issue.get', denied: true, approvers: null, acknowledge: HASH }],
    },
  ],
  'catalog-disconnect': [{ ...message, expectedVersion: 1 }],
  'catalog-decision': [catalogDecision()],
  'catalog-snapshot': [
    catalogSnapshot([catalogEntry()], listed),
    catalogSnapshot([catalogEntry()], { ...listed, lastRefresh: { refresh: 1, at: AT, ok: true, refused: [] } }),
  ],
  'catalog-file': [{ tenant: 'default', server: 'files', version: 1, tools: {} }],
  'policy-cases': [{ groups: [{ name: 'ours', cases: [{ name: 'one', call: 'files/a/b', expect: 'ask' }] }] }],
  'catalog-ack': [
    { requestId: 'r-1', status: 'applied', policyVersion: 1, refresh: 1 },
    { requestId: 'r-1', status: 'waiting', policyVersion: 1, changeId: 'change-1' },
  ],
  config: [{}, { servers: { files: { url: 'http://127.0.0.1/mcp' } } }],
  'approval-request': [approvalRequest()],
  'decision-ack': [
    { callId: 't1.c0', decisionId: 'd-1', status: 'approved', decidedBy: 'ann', decidedAt: '2026-01-01T00:00:00.000Z' },
  ],
  outcome: Object.values(outcomes()),
  verdict: [allowVerdict(), askVerdict(), denyVerdict()],
  'tool-definition': [toolDefinition(), toolDefinition({ annotations: { readOnlyHint: 'yes' } })],
  'ledger-entry': entries,
  segment: [{ workflowId: 'run/1', transcript: { from: 0, messages: conversation() }, ledger: { from: 0, entries } }],
  'run-state': [runState()],
  'run-result': [
    { status: 'completed', output: { a: [1, null] }, turns: 1, calls: 1, usage, ledgerHead: HASH, ledgerLength: 9 },
  ],
};

function validatorOf(name: string): Validator {
  const text = readFileSync(new URL(`../../../docs/schema/${name}.schema.json`, import.meta.url), 'utf8');
  // Sound: the file is a JSON Schema, which the check of this repository has written.
  return new Validator(JSON.parse(text) as Schema, '2020-12');
}

describe.each(Object.entries(VALID))('docs/schema/%s', (name, values) => {
  test('takes what the contract takes', () => {
    for (const value of values) expect(validatorOf(name).validate(value)).toMatchObject({ valid: true });
  });

  test('refuses an unknown field and a value of another kind', () => {
    for (const value of values) expect(validatorOf(name).validate({ ...value, unknown_field: 1 }).valid).toBe(false);
    for (const value of [null, 7, 'text', []]) expect(validatorOf(name).validate(value).valid).toBe(false);
  });
});
