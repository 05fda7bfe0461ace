/**
 * These scenarios record catalogs at each point at which one may wait: new, listing, connected, drifted, refused by its
 * server, asked, disconnected, continued.
 */
import type { CatalogHandle } from '../../../client/index.ts';
import { entryOf } from '../../../domain/catalog/state.ts';
import { until } from '../../support/until.ts';
import { type Attempt, CATALOG } from './recording.ts';
import { approve, calls, type Expected, refused, says, type Scenario, scenario, type Scene } from './scene.ts';
import { TOOL_SERVER_URL } from './tool-server.ts';

const ANN = { id: 'ann' };
const NOBODY = { steps: [says('No model is asked.')] };

export const CATALOGS: readonly Scenario[] = [
  scenario(
    'catalog',
    {
      points: [
        'new',
        'connected',
        'drifted',
        'failed',
        'asked',
        'continued-first',
        'continued-second',
        'disconnected',
      ].map((point) => `${CATALOG}${point}`),
      ...NOBODY,
    },
    async (scene) => {
      const catalog = catalogOf(scene, 'cellar');
      const take = async (point: string, taken: Parameters<Scene['take']>[1] = {}): Promise<void> =>
        await scene.take(`${CATALOG}${point}`, taken, catalog.workflowId);
      await catalog.connect({ by: { id: 'mallory' }, url: TOOL_SERVER_URL }).catch(() => undefined);
      await take('new', { refused: wrongMessages().filter(({ update }) => update === 'connect') });
      await done(catalog, await catalog.connect({ requestId: 'first', by: ANN, url: TOOL_SERVER_URL }));
      await take('connected', {
        refused: [...wrongMessages(), stranger()],
        accepted: [
          message('a change', 'setToolPolicies', {
            expectedVersion: 1,
            changes: [{ tool: 'read_note', enabled: false }],
          }),
        ],
      });
      await set(catalog, 'second', { tool: 'send_note', enabled: false });
      scene.stage.tools.retell({ write_note: 'Writes one note, and sends it.', draw_chart: undefined });
      await done(catalog, await catalog.refresh({ requestId: 'third', by: ANN }));
      await take('drifted', {
        refused: [
          refused(
            message('of what it was before', 'setToolPolicies', {
              expectedVersion: 3,
              changes: [{ tool: 'write_note', acknowledge: '0'.repeat(64) }],
            }),
            'CATALOG_VERSION_CONFLICT',
          ),
        ],
        accepted: [message('a refresh', 'refresh', {})],
      });
      scene.stage.tools.refuseListing(true);
      await done(catalog, await catalog.refresh({ requestId: 'fourth', by: ANN }));
      scene.stage.tools.refuseListing(false);
      await take('failed');
      const loosen = await set(catalog, 'fifth', { tool: 'read_note', requiresApproval: false });
      const [pending] = (await catalog.snapshot()).pending;
      const decision = { changeId: loosen.changeId, digest: pending?.digest, verdict: 'approve' };
      await take('asked', {
        refused: [
          refused(message('a decision without a verdict', 'decide', { changeId: 'change-1' }), 'CATALOG_INVALID'),
        ],
        accepted: [message('approval of the change', 'decide', { ...decision, by: { id: 'zoe' } })],
      });
      const handle = scene.deployment.client.workflow.getHandle(catalog.workflowId);
      const { runId } = await handle.describe();
      await handle.signal('nudge');
      await until(async () => (await handle.describe()).runId !== runId, {
        what: 'the next execution',
      });
      await take('continued-first', { runId });
      await take('continued-second', {
        refused: wrongMessages(),
        accepted: [message('another refresh', 'refresh', {})],
      });
      const { policyVersion: expectedVersion } = await catalog.snapshot();
      await catalog.disconnect({ requestId: 'sixth', by: ANN, expectedVersion });
      await take('disconnected', {
        accepted: [message('a connection', 'connect', { url: TOOL_SERVER_URL, expectedVersion: expectedVersion + 1 })],
      });
      scene.stage.tools.retell({});
    },
  ),
  scenario('redefined', { steps: [calls(['write_note', 'monday'])] }, async (scene) => {
    const { split, tools } = scene.stage;
    const before = await split.serveTools();
    const catalog = split.countersign.catalog('notes', 'archive');
    await done(
      catalog,
      await catalog.connect({ requestId: 'first', by: ANN, url: TOOL_SERVER_URL, taskQueue: 'countersign-tools' }),
    );
    await scene.start({ initiator: { id: 'ben', tenant: 'archive' } }, { on: split });
    const request = await scene.openOne('t1.c0');
    tools.retell({ write_note: 'Writes one note, and sends it.' });
    await done(catalog, await catalog.refresh({ requestId: 'second', by: ANN }));
    await before.stop();
    // This worker has not read anything yet.
    const after = await split.serveTools();
    await scene.decide(approve(request, 'yes'));
    const reopened = await scene.asked('t1.c0', 2);
    await scene.take('redefined', {
      refused: [refused(approve(request, 'what was shown before'), 'DIGEST_MISMATCH')],
      accepted: [approve(reopened, 'approval')],
    });
    await scene.ended();
    tools.retell({});
    await after.stop();
  }),
];

function catalogOf(scene: Scene, tenant: string): CatalogHandle {
  return scene.stage.plain.countersign.catalog(scene.catalogOf('notes'), tenant);
}

async function done(catalog: CatalogHandle, { refresh = 0 }: { readonly refresh?: number | undefined }): Promise<void> {
  await catalog.settled(refresh);
}

async function set(
  catalog: CatalogHandle,
  requestId: string,
  change: Parameters<CatalogHandle['setToolPolicies']>[0]['changes'][number],
): ReturnType<CatalogHandle['setToolPolicies']> {
  const snapshot = await catalog.snapshot();
  if (entryOf(snapshot, change.tool) === undefined) throw new Error(`no tool ${change.tool}`);
  return await catalog.setToolPolicies({
    requestId,
    by: ANN,
    expectedVersion: snapshot.policyVersion,
    changes: [change],
  });
}

function message(name: string, update: Attempt['update'], input: object): Attempt {
  return { name, update, input: { requestId: name.replaceAll(' ', '-'), by: ANN, ...input } };
}

function stranger(): Expected {
  return refused(message('a stranger', 'refresh', { by: { id: 'mallory' } }), 'CATALOG_FORBIDDEN');
}

/** Makes messages that every catalog refuses before they enter history, whatever its state. */
function wrongMessages(): Expected[] {
  const of = (name: string, update: Attempt['update'], input: object): Expected =>
    refused(message(name, update, input), 'CATALOG_INVALID');
  return [
    of('a secret in the address', 'connect', { url: 'https://ann:pw@notes.example/mcp' }),
    of('a field too many', 'connect', { url: TOOL_SERVER_URL, token: 'x' }),
    of('no change at all', 'setToolPolicies', { expectedVersion: 1, changes: [] }),
    of('a version that is none', 'disconnect', { expectedVersion: '1' }),
    refused(message('a version that is not there', 'disconnect', { expectedVersion: 99 }), 'CATALOG_VERSION_CONFLICT'),
    refused(
      message('a tool on a version that is not there', 'setToolPolicies', {
        expectedVersion: 98,
        changes: [{ tool: 'read_note', enabled: false }],
      }),
      'CATALOG_VERSION_CONFLICT',
    ),
  ];
}
