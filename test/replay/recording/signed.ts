/**
 * These scenarios record a run in trust mode `signed`. Its keys are made while it is played, so no private key is ever
 * recorded.
 */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { createSigner, type Signer } from '../../../client/index.ts';
import { signed, type ToSign } from '../../../client/signing/signing.ts';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { TrustedJwk } from '../../../contracts/schemas/trust.ts';
import { until } from '../../support/until.ts';
import type { Attempt } from './recording.ts';
import { approve, calls, refused, type Scenario, scenario } from './scene.ts';

const TENANT = 'office';

/** Two of three people must approve, and the initiator does not count. */
export const SIGNED_POLICY: ConfigInput['policy'] = {
  servers: {
    notes: {
      default: 'allow',
      tools: {
        write_note: {
          action: 'ask',
          approvers: { ids: ['acme|ann', 'acme|zoe'], groups: ['leads'], need: 2, notInitiator: true },
        },
      },
    },
  },
};

interface Key {
  readonly signer: Signer;
  readonly entry: TrustedJwk;
}

function keyOf(kid: string, sub: string | undefined, groups: string[] = []): Key {
  const { privateKey } = generateKeyPairSync('ed25519');
  const jwk = privateKey.export({ format: 'jwk' });
  const asserted = { iss: 'acme', groups, tenants: [TENANT] };
  return {
    signer: createSigner(kid, jwk, groups),
    entry: {
      kty: 'OKP',
      crv: 'Ed25519',
      x: jwk.x ?? '',
      kid,
      countersign: sub === undefined ? { kind: 'service', ...asserted } : { kind: 'person', sub, ...asserted },
    },
  };
}

export async function writeKeys(path: string, keys: readonly Key[]): Promise<void> {
  await writeFile(path, JSON.stringify({ keys: keys.map(({ entry }) => entry) }));
}

/** The trusted keys, and one that is trusted later. */
export interface SignedKeys {
  readonly backend: Key;
  readonly ann: Key;
  readonly zoe: Key;
}

export function signedKeys(): SignedKeys {
  return { backend: keyOf('backend', undefined, ['leads']), ann: keyOf('ann', 'ann'), zoe: keyOf('zoe', 'zoe') };
}

export const SIGNED: readonly Scenario[] = [
  scenario(
    'signed',
    { points: ['signed', 'signed-sent'], steps: [calls(['write_note', 'monday'], ['read_note', 'tuesday'])] },
    async (scene) => {
      const { deployment, keys, trust } = await scene.stage.openSigned();
      await trust([keys.backend, keys.ann]);
      await scene.start({ initiator: { id: 'acme|ben', tenant: TENANT } }, { on: deployment });
      const request = await scene.openOne('t1.c0');
      await scene.ledgered('outcome', 't1.c1');
      const { handle } = scene;
      const by = async (key: Key, name: string, over: object = {}): Promise<Attempt> => vote(key, request, name, over);
      const asAnn = { approver: { id: 'acme|ann', groups: [] } };
      const asEve = { approver: { id: 'acme|eve', groups: ['leads'] } };
      const eve = await by(keys.backend, 'eve by the service', asEve);
      await handle.executeUpdate('decide', { args: [eve.input], updateId: 'eve' });
      const good = await by(keys.ann, 'ann', asAnn);
      const say = { messageId: 'more', text: 'And mind the gap.', from: 'acme|ben' };
      const where = {
        namespace: request.namespace,
        tenant: TENANT,
        workflowId: scene.workflowId,
        runId: request.runId,
      };
      const said: ToSign = { ...where, purpose: 'say', person: say.from, groups: [], jti: say.messageId };
      await scene.take('signed', {
        refused: [
          refused(approve(request, 'without a signature', asAnn), 'SIGNATURE_MISSING'),
          refused(
            { ...good, name: 'altered', input: { ...(good.input as object), comment: 'x' } },
            'SIGNATURE_INVALID',
          ),
          refused(
            {
              ...good,
              name: 'as a stop',
              update: 'stop',
              input: { by: 'acme|ann', reason: 'x', inFlight: 'finish', signature: signatureOf(good) },
            },
            'SIGNATURE_INVALID',
          ),
          refused(await by(keys.zoe, 'by a key that is not trusted', asAnn), 'TRUST_KEY_UNKNOWN'),
          refused(await by(keys.ann, 'for somebody else', asEve), 'SIGNER_NOT_ENTITLED'),
          refused(
            await by(keys.backend, 'a second one of the same key', { approver: { id: 'acme|max', groups: ['leads'] } }),
            'APPROVER_NOT_ENTITLED',
          ),
          refused({ name: 'an unsigned message', update: 'say', input: say }, 'SIGNATURE_MISSING'),
        ],
        accepted: [{ name: 'a signed message', update: 'say', input: await signed(keys.backend.signer, say, said) }],
      });
      await trust([keys.backend, keys.zoe]);
      await handle.executeUpdate('refreshTrust');
      const zoe = await by(keys.zoe, 'zoe', { approver: { id: 'acme|zoe', groups: [] } });
      await until(
        async () =>
          await handle.executeUpdate('decide', { args: [zoe.input], updateId: 'zoe' }).then(
            () => true as const,
            () => undefined,
          ),
        { what: 'the run knowing the new key' },
      );
      await scene.ended('signed-sent');
    },
  ),
];

async function vote(key: Key, request: ApprovalRequest, name: string, over: object): Promise<Attempt> {
  const attempt = approve(request, name, over);
  // Sound: `approve` has just made this input.
  const input = attempt.input as { decisionId: string; runId: string; approver: { id: string; groups: string[] } };
  const { namespace, tenant, workflowId } = request;
  const about = { purpose: 'decide', namespace, tenant, workflowId, runId: input.runId } as const;
  const { decisionId: jti, approver } = input;
  return {
    ...attempt,
    input: await signed(key.signer, input, { ...about, jti, person: approver.id, groups: approver.groups }),
  };
}

function signatureOf({ input }: Attempt): unknown {
  return typeof input === 'object' && input !== null && 'signature' in input ? input.signature : undefined;
}
