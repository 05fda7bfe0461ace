/**
 * Dispatches that are held open for people, at the reference server of MCP 2025-11-25 (docs/adr/0040): what is asked,
 * what is believed, and what the server hears.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import type { InputRequests, InputResponse } from '../../contracts/schemas/input.ts';
import { type HeldSceneOptions, heldScene } from '../support/activities/held-activity.ts';
import { type RunningMcpServer, startEverythingServer } from '../support/servers/real-servers.ts';
import type { ProvisionProof } from '../../contracts/wire/proofs.ts';

const FORM = 'trigger-elicitation-request';
const PAGE = 'trigger-url-elicitation';
const PAGE_ARGUMENTS = { url: 'https://id.example/sign-in', message: 'Sign in.', elicitationId: 'e-1' };
const ANN: InputResponse = { action: 'accept', content: { name: 'Ann', check: true } };

let server: RunningMcpServer;
beforeAll(async () => {
  server = await startEverythingServer();
});
afterAll(async () => await server.close());

const scene = async (options: Partial<HeldSceneOptions> & Pick<HeldSceneOptions, 'answer'>) =>
  await heldScene({ url: server.url, ...options });

/** What the tool says. */
function said(result: DispatchResult): string {
  if (result.kind !== 'ended' || result.outcome.kind !== 'succeeded') throw new Error(JSON.stringify(result));
  return JSON.stringify(result.outcome.result.content);
}

describe('a form', () => {
  test('is put before people as an update of its own, and the server goes on with what they answer', async () => {
    const { call, asked } = await scene({ answer: () => ANN });
    const result = said(await call(FORM, {}));
    expect(result).toContain('User provided the requested information');
    expect(result).toContain('Ann');
    expect(asked).toEqual([
      {
        updateId: 'held/t1.c0/1/1',
        questions: {
          callId: 't1.c0',
          attempt: 1,
          round: 1,
          requests: {
            question: expect.objectContaining({
              kind: 'form',
              message: 'Please provide inputs for the following fields:',
              required: ['name'],
              fields: expect.objectContaining({
                name: { type: 'text', title: 'String', description: 'Your full, legal name' },
              }),
            }),
          },
        },
      },
    ]);
  });

  test.each<['decline' | 'cancel', string]>([
    ['decline', 'User declined'],
    ['cancel', 'User cancelled'],
  ])('that people %s: the server hears so, and ends the call as it likes', async (action, words) => {
    const { call } = await scene({ answer: () => ({ action }) });
    const result = await call(FORM, {});
    expect(said(result)).toContain(words);
    expect(result).toMatchObject({ held: [{ round: 1, told: action }] });
  });
});

test('a page is shown with its address, and the server hears that it was opened', async () => {
  const { call, asked } = await scene({ answer: () => ({ action: 'accept' }) });
  expect(said(await call(PAGE, PAGE_ARGUMENTS))).toContain('User completed the URL elicitation flow');
  expect(asked[0]?.questions.requests).toEqual({
    question: {
      kind: 'url',
      message: 'Sign in.',
      url: PAGE_ARGUMENTS.url,
      host: 'id.example',
      hash: expect.any(String),
    },
  });
});

test('a page that nobody should open is put before nobody, and the call fails', async () => {
  const { call, asked } = await scene({ answer: () => ({ action: 'accept' }) });
  const result = await call(PAGE, { ...PAGE_ARGUMENTS, url: 'http://id.example/sign-in' });
  expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'failed', executed: true } });
  expect(asked).toEqual([]);
});

describe('an answer that does not count is not given to the server (INV-G1, INV-G2)', () => {
  const minutesAgo = (minutes: number): string => new Date(Date.now() - minutes * 60_000).toISOString();
  const otherApprovers = { allOf: [{ layer: 'default' as const, ids: ['eve'], groups: [] }] };

  test.each<[string, (proof: ProvisionProof) => ProvisionProof]>([
    [
      'by somebody who was not asked',
      (p) => ({ ...p, provision: { ...p.provision, approver: { id: 'eve', groups: [] } } }),
    ],
    ['by a rule of the run’s own', (p) => ({ ...p, approvers: otherApprovers })],
    ['of another request', (p) => ({ ...p, generation: p.generation + 1 })],
    ['of another call', (p) => ({ ...p, provision: { ...p.provision, callId: 't1.c1' } })],
    ['of another tool', (p) => ({ ...p, definitionHash: 'f'.repeat(64) })],
    ['made before a reset', (p) => ({ ...p, provision: { ...p.provision, runId: 'run-0' } })],
    ['after its deadline', (p) => ({ ...p, deadline: p.decidedAt })],
    ['given before this dispatch asked', (p) => ({ ...p, openedAt: minutesAgo(11), decidedAt: minutesAgo(10) })],
    [
      'that does not fit the form',
      (p) => ({ ...p, provision: { ...p.provision, responses: {} } as ProvisionProof['provision'] }),
    ],
    ['that is none at all', () => ({}) as ProvisionProof],
  ])('%s', async (_, prove) => {
    const { call, asked } = await scene({ answer: () => ANN, prove });
    expect(said(await call(FORM, {}))).toContain('User cancelled');
    expect(asked).toHaveLength(1);
  });

  test.each<[string, HeldSceneOptions['shows'] & object]>([
    ['of another round', (about) => ({ ...about, round: 2 })],
    ['that the server had not asked on its connection', ({ held: _, ...about }) => about],
    ['in other words', ({ requests, ...about }) => ({ ...about, requests: reworded(requests) })],
  ])('it is to a question %s', async (_, shows) => {
    const { call, asked } = await scene({ answer: () => ANN, shows });
    expect(said(await call(FORM, {}))).toContain('User cancelled');
    expect(asked).toHaveLength(1);
  });

  test('policy denies the tool by now', async () => {
    const { call } = await scene({
      answer: () => ANN,
      meanwhile: (config) => Object.assign(config.policy, { servers: { peer: { tools: { [FORM]: 'deny' } } } }),
    });
    const result = await call(FORM, {});
    expect(said(result)).toContain('User cancelled');
    // The ledger says that people have answered: this, that the server did not hear it.
    expect(result).toMatchObject({ held: [{ round: 1, told: 'cancel', code: 'POLICY_DENIED' }] });
  });

  test('policy asks others by now', async () => {
    const { call } = await scene({
      answer: () => ANN,
      meanwhile: (config) => Object.assign(config.policy, { approvers: { ids: ['bob'], groups: [] } }),
    });
    expect(said(await call(FORM, {}))).toContain('User cancelled');
  });
});

describe('nobody is asked', () => {
  test('where the run does not know how: the server is not told that it may ask, and has no such tool', async () => {
    const { call, asked } = await scene({ answer: () => ANN });
    expect(await call(FORM, {}, {})).toMatchObject({
      outcome: { kind: 'failed', code: 'TOOL_UNKNOWN', executed: false },
    });
    expect(asked).toEqual([]);
  });

  test('where the operator has not said so: such tools are not offered at all', async () => {
    const { offered } = await scene({ answer: () => ANN, server: { elicitation: undefined } });
    const names = offered.map(({ definition }) => definition.name);
    expect(names).toContain('echo');
    expect(names).not.toContain(FORM);
  });
});

/** Under the hash of what the server asked. */
function reworded(requests: InputRequests): InputRequests {
  return Object.fromEntries(
    Object.entries(requests).map(([key, request]) => [key, { ...request, message: 'Your lucky number?' }]),
  );
}
