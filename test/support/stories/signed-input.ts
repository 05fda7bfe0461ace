/** Makes a dispatch of a signed run with everything that it must prove; tests forge one part at a time. */
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import type { Scheduler } from '../../../activities/kit/activity.ts';
import { createSignatureCheck } from '../../../activities/trust/dispatch-proof.ts';
import type { ExecutionFacts, Namesakes } from '../../../activities/trust/executions.ts';
import { createTrustedKeys } from '../../../activities/trust/keys.ts';
import { proveStart, type StartProofParts } from '../../../activities/trust/start-proof.ts';
import type { SignedDecision } from '../../../contracts/schemas/request.ts';
import { RunSpec } from '../../../contracts/schemas/run-spec.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import { TrustConfig, type TrustedJwk } from '../../../contracts/schemas/trust.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { specHash } from '../../../domain/request/digest.ts';
import { claimsFor, person, service, signedWith, type TestKey } from '../signing/people.ts';

export const now = Math.floor(Date.now() / 1_000);
export const [backend, ann, ben] = [service('backend', ['ops']), person('ann', 'ann'), person('ben', 'ben')];
export const config = TrustConfig.parse({ mode: 'signed', jwks: 'x' });
if (config.mode !== 'signed') throw new Error('it is');

export const given = {
  agent: { name: 'clerk', model: 'm' },
  input: 'Do it.',
  initiator: { id: 'acme|ann' },
  servers: [
    { name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay'], execute: 'local' },
    { name: 'open' },
  ],
  grants: [{ server: 'bank', ref: 'vault' }],
  policy: { approvers: { ids: ['acme|ann'] } },
};
export const spec = RunSpec.parse(given);
export const artifacts = createMemoryStore();
export const scheduler: Scheduler = {
  namespace: 'default',
  activity: 'callTool',
  workflowType: 'agentRun',
  workflowId: 'run-1',
  runId: 'exec-2',
  attempt: 1,
  scheduledAt: 0,
  attemptAt: 0,
};
export const first: ExecutionFacts = {
  startedAt: now * 1_000,
  firstRunId: 'exec-1',
  taskQueue: 'countersign',
  continued: true,
};

/** The state that tests change. */
export const world: { trusted: readonly TrustedJwk[]; known: Record<string, ExecutionFacts> } = {
  trusted: [],
  known: {},
};
export const parts: StartProofParts = {
  keys: createTrustedKeys(config, { name: 'x', freshMs: 0, read: async () => JSON.stringify({ keys: world.trusted }) }),
  artifacts,
  readExecution: async (_workflowId, runId) => world.known[runId],
  taskQueue: 'countersign',
  config: Config.parse({
    models: {
      m: { provider: 'openai', model: 'gpt', apiKey: 'key-of-the-model' },
      other: { provider: 'openai', model: 'gpt', apiKey: 'key-of-the-model' },
    },
    // A run may choose here who calls.
    servers: {
      bank: { url: 'https://bank.example/mcp', execute: 'auto' },
      open: { url: 'https://open.example/mcp', execute: 'auto' },
    },
  }),
};
export const reset = (): void => {
  world.trusted = [backend, ann, ben].map(({ entry }) => entry);
  world.known = { 'exec-1': first, 'exec-2': { ...first, continued: false } };
};

export async function vote(key: TestKey, id: string, over: object = {}, claims: object = {}): Promise<SignedDecision> {
  const approver = { id, groups: [] };
  const message = {
    kind: 'approve',
    decisionId: `by-${id}`,
    callId: 't1.c0',
    digest: 'a'.repeat(64),
    runId: 'exec-2',
    approver,
    ...over,
  };
  const [iss, sub] = id.split('|');
  const where = { namespace: 'default', tenant: 'default', workflowId: 'run-1', runId: message.runId, groups: [] };
  const about = { purpose: 'decide', ...where, iss, sub };
  // Sound: a test may forge any value.
  return {
    ...message,
    signature: await signedWith(key, claimsFor(message, about, { jti: message.decisionId, ...claims })),
  } as SignedDecision;
}

/** Filled once, before the first test. Sound: nothing reads it earlier. */
export const input = {} as DispatchInput;
export async function prepareInput(): Promise<void> {
  reset();
  const about = {
    purpose: 'start',
    namespace: 'default',
    tenant: 'default',
    workflowId: 'run-1',
    iss: 'acme',
    sub: 'ann',
  };
  const signature = await signedWith(backend, claimsFor(given, about));
  const { signedSpec } = await proveStart(parts, { ...given, signature }, spec, scheduler);
  Object.assign(input, {
    run: { namespace: 'default', workflowId: 'run-1', initiator: spec.initiator, specHash: specHash(spec) },
    runId: 'exec-2',
    decidedIn: ['exec-1', 'exec-2'],
    callId: 't1.c0',
    name: 'bank__pay',
    target: { server: 'bank', serverUrl: 'https://bank.example/mcp', tool: 'pay', definitionHash: 'd'.repeat(64) },
    arguments: {},
    proof: {
      kind: 'decision',
      decision: await vote(ann, 'acme|ann'),
      generation: 1,
      approvers: { allOf: [] },
      deadline: new Date((now + 100) * 1_000).toISOString(),
      decidedAt: new Date(now * 1_000).toISOString(),
    },
    toolset: [
      { server: 'bank', tools: { sha256: 'b'.repeat(64), bytes: 1, contentType: 'x' }, allowedTools: ['pay'] },
      { server: 'open', tools: { sha256: 'c'.repeat(64), bytes: 1, contentType: 'x' } },
    ],
    runPolicy: given.policy,
    server: { name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay'] },
    grant: { server: 'bank', ref: 'vault' },
    limits: { resultBytes: 1, callTimeoutSeconds: 1 },
    attempt: 1,
    idempotencyKey: 'k',
    signedSpec,
  });
}

export const noNamesakes: Namesakes = async () => undefined;

export async function answer(
  over: Partial<DispatchInput> = {},
  by: Partial<Scheduler> = {},
  namesakes = noNamesakes,
): Promise<string> {
  const refused = await createSignatureCheck(parts, namesakes)({ ...input, ...over }, { ...scheduler, ...by });
  return refused === undefined ? 'proven' : `${refused.kind} ${refused.code}`;
}
export const withProof = (over: object): Partial<DispatchInput> => ({
  proof: { ...input.proof, ...over },
});
export const forged = 'refused DISPATCH_FORBIDDEN';
