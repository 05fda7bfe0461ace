/**
 * These scenarios record a catalog in trust mode `signed`: a loosening waits for a second key, before and after
 * continue-as-new.
 */
import { Countersign } from '../../../client/index.ts';
import { signed, type ToSign } from '../../../client/signing/signing.ts';
import type { CatalogPurpose } from '../../../contracts/schemas/trust.ts';
import { until } from '../../support/until.ts';
import { type Attempt, CATALOG } from './recording.ts';
import { refused, says, type Scenario, scenario } from './scene.ts';
import type { SignedKeys } from './signed.ts';
import { TOOL_SERVER_URL } from './tool-server.ts';

const TENANT = 'office';
/** No run names this server. */
const SERVER = 'shelf';
const ANN = { id: 'acme|ann', groups: [] as string[] };
const ZOE = { id: 'acme|zoe', groups: [] as string[] };

export const SIGNED_CATALOG: readonly Scenario[] = [
  scenario(
    'catalog-signed',
    {
      points: ['signed', 'signed-continued-first', 'signed-continued'].map((point) => `${CATALOG}${point}`),
      steps: [says('No model is asked.')],
    },
    async (scene) => {
      const { deployment, keys, trust } = await scene.stage.openSigned();
      await trust([keys.backend, keys.ann]);
      const { client, taskQueue } = deployment;
      const through = (key: SignedKeys['ann']) =>
        new Countersign({ client, taskQueue, signer: key.signer }).catalog(scene.catalogOf(SERVER), TENANT);
      const catalog = through(keys.backend);
      const { workflowId } = catalog;
      const { refresh = 0 } = await catalog.connect({ requestId: 'first', by: ANN, url: TOOL_SERVER_URL });
      await catalog.settled(refresh);
      const loosen = await catalog.setToolPolicies({
        requestId: 'second',
        by: ANN,
        expectedVersion: 1,
        changes: [{ tool: 'read_note', requiresApproval: false }],
      });
      const runIdOf = async (): Promise<string> => (await catalog.snapshot()).signing?.runId ?? '';
      const [pending] = (await catalog.snapshot()).pending;
      const agreement = { changeId: loosen.changeId, digest: pending?.digest, verdict: 'approve' };
      const attempt = async (
        name: string,
        key: SignedKeys['ann'],
        update: Attempt['update'],
        input: object,
        over: Partial<ToSign> = {},
      ): Promise<Attempt> => {
        const message = { requestId: name.replaceAll(' ', '-'), by: ANN, ...input };
        const { requestId: jti, by } = message;
        // Sound: updates of catalogs have purposes of the same names.
        const purpose = `catalog.${update}` as CatalogPurpose;
        const where = { namespace: client.options.namespace, tenant: TENANT, workflowId, runId: await runIdOf() };
        const about = { ...where, purpose, jti, person: by.id, groups: by.groups, ...over };
        return { name, update, input: await signed(key.signer, message, about) };
      };
      const switchedOff = { expectedVersion: 1, changes: [{ tool: 'write_note', enabled: false }] };
      const wrong = async () => [
        refused(
          {
            name: 'without a signature',
            update: 'setToolPolicies',
            input: { requestId: 'bare', by: ANN, ...switchedOff },
          },
          'SIGNATURE_MISSING',
        ),
        refused(
          await attempt('for a refresh', keys.ann, 'setToolPolicies', switchedOff, { purpose: 'catalog.refresh' }),
          'SIGNATURE_INVALID',
        ),
        refused(
          await attempt('for another catalog', keys.ann, 'setToolPolicies', switchedOff, { workflowId: 'other' }),
          'SIGNATURE_INVALID',
        ),
        refused(await attempt('for somebody else', keys.ann, 'refresh', { by: ZOE }), 'SIGNER_NOT_ENTITLED'),
        refused(
          await attempt('by the key that asked', keys.backend, 'decide', { by: ZOE, ...agreement }),
          'APPROVER_NOT_ENTITLED',
        ),
        refused(
          await attempt('by a key that is not trusted', keys.zoe, 'decide', { by: ZOE, ...agreement }),
          'TRUST_KEY_UNKNOWN',
        ),
      ];
      await scene.take(
        `${CATALOG}signed`,
        {
          refused: await wrong(),
          accepted: [await attempt('a change', keys.ann, 'setToolPolicies', switchedOff)],
        },
        workflowId,
      );
      const before = await runIdOf();
      await client.workflow.getHandle(workflowId).signal('nudge');
      await until(async () => (await runIdOf()) !== before, { what: 'the next execution' });
      await scene.take(`${CATALOG}signed-continued-first`, { runId: before }, workflowId);
      await scene.take(
        `${CATALOG}signed-continued`,
        {
          refused: await wrong(),
          accepted: [await attempt('a message of before', keys.ann, 'refresh', {}, { runId: before })],
        },
        workflowId,
      );
    },
  ),
];
