/**
 * What a signature costs the validator: one signed decision, checked by the very code that runs in the sandbox of
 * workflows, and beside it what Node's own crypto takes.
 *
 *   npx tsx bench/signature.ts [--times 500]
 */
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { parseArgs } from 'node:util';
import { createSigner } from '../client/index.ts';
import { signed } from '../client/signing/signing.ts';
import type { SignedDecision } from '../contracts/schemas/request.ts';
import type { TrustedKey } from '../contracts/schemas/trust.ts';
import { checkSignedAnswer } from '../domain/request/signed-answer.ts';

const { values } = parseArgs({ options: { times: { type: 'string', default: '500' } } });
const times = Number(values.times);

const { privateKey } = generateKeyPairSync('ed25519');
const jwk = privateKey.export({ format: 'jwk' });
const ids = { namespace: 'default', tenant: 'default', workflowId: 'bench' };
const approver = { id: 'acme|ann', groups: ['ops'] };
const message = {
  kind: 'approve',
  decisionId: 'd',
  callId: 't1.c0',
  digest: 'a'.repeat(64),
  runId: 'r',
  approver,
} as const;
const decision: SignedDecision = await signed(
  createSigner('ann', jwk),
  { ...message, approver: { ...approver } },
  {
    ...ids,
    purpose: 'decide',
    runId: message.runId,
    jti: message.decisionId,
    person: approver.id,
    groups: approver.groups,
  },
);

/** As many keys as a run of a large tenant holds; the right one is the last. */
const keys: TrustedKey[] = Array.from({ length: 300 }, (_, index) => ({
  kid: index === 299 ? 'ann' : `key-${index}`,
  x: jwk.x ?? '',
  iss: 'acme',
  groups: ['ops'],
}));

function median(milliseconds: readonly number[]): number {
  return milliseconds.toSorted((one, other) => one - other)[Math.floor(milliseconds.length / 2)] ?? 0;
}

function measured(act: () => void): number {
  for (let warm = 0; warm < 20; warm += 1) act();
  return median(
    Array.from({ length: times }, () => {
      const from = performance.now();
      act();
      return performance.now() - from;
    }),
  );
}

const first = performance.now();
const checked = checkSignedAnswer('decide', decision, ids, { keys }, Date.now());
const cold = performance.now() - first;
if (checked.kind === 'refuse') throw new Error(checked.message);
const [header = '', claims = '', signature = ''] = (decision.signature ?? '').split('.');
const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: jwk.x ?? '' }, format: 'jwk' });
const input = Buffer.from(`${header}.${claims}`);
const bytes = Buffer.from(signature, 'base64url');
const forged = { ...decision, comment: 'x' };

const figures = {
  'first check, ms': cold,
  'check of a signed decision p50, ms': measured(
    () => void checkSignedAnswer('decide', decision, ids, { keys }, Date.now()),
  ),
  'check of a forged one p50, ms': measured(() => void checkSignedAnswer('decide', forged, ids, { keys }, Date.now())),
  "Node's own verification p50, ms": measured(() => void verify(null, input, publicKey, bytes)),
  'bytes of a signature': (decision.signature ?? '').length,
};
for (const [figure, value] of Object.entries(figures))
  console.log(JSON.stringify({ figure, value: Number(value.toFixed(3)) }));
