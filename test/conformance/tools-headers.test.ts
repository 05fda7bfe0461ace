/** What the environment puts into the headers of a server comes back from nowhere, whatever the headers are called (INV-S1). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { toolSideActivities } from '../../workers/composition.ts';
import { heldClient } from '../support/activities/held-activity.ts';
import { allowedDispatch, inActivity, RUN } from '../support/activities/tool-activities.ts';
import { useConfigFolders } from '../support/config-folder.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';

const ENVIRONMENT = { PASS: 'correct-horse-battery', CODE: 'hunter-of-snarks', REGION: 'eu-west', EMPTY: '' };

const { load } = useConfigFolders();

describe('a server that says back with which headers it was called', () => {
  let server: RawServer;
  beforeAll(async () => {
    server = await startRawServer({
      era: 'modern',
      pages: [[{ name: 'act', inputSchema: { type: 'object' } }]],
      onCall: ({ request, text }) => text(`${request.method} ${JSON.stringify(request.headers)}`),
    });
  });
  afterAll(async () => server.close());

  async function called(name: string): Promise<DispatchResult> {
    const headers = '{X-Ward: "${PASS}", X-Mixed: "code ${CODE}!", X-Zone: "${REGION}", X-Plan: "${PLAN:-enterprise}"}';
    const loaded = await load(
      `egress: {allowLoopback: true}
policy: {strategy: never}
servers:
  mine: {url: "${server.url}", credentials: {kind: none}, headers: ${headers}}
  other: {url: "${server.url}", credentials: {kind: none}, headers: {X-Ward: correct-horse-battery}}
`,
      ENVIRONMENT,
    );
    const artifacts = createMemoryStore();
    const { client } = heldClient({ dispatch: () => undefined, answer: () => undefined });
    const { discoverTools, callTool } = await toolSideActivities(loaded, artifacts, client);
    const binding = { name, url: canonicalServerUrl(server.url) };
    const found = await inActivity(discoverTools, { run: RUN, server: binding });
    if (!('tools' in found)) throw new Error('turned away');
    const toolset = [{ server: name, tools: found.tools }];
    const [tool] = await createToolsetLoader(artifacts)(toolset);
    if (tool === undefined) throw new Error('no tool');
    return await inActivity(callTool, allowedDispatch(tool, {}, toolset, { server: binding }));
  }

  test('what a variable holds is taken out; words around it, short ones and defaults are not', async () => {
    const said = JSON.stringify(await called('mine'));
    expect(said).toContain('succeeded');
    expect(said).toContain('code [redacted]!');
    expect(said).not.toContain(ENVIRONMENT.PASS);
    for (const plain of ['eu-west', 'enterprise']) expect(said).toContain(plain);
  });

  test('what stands in the file itself is known by the name of its header alone, also if another server has it', async () => {
    expect(JSON.stringify(await called('other'))).toContain(ENVIRONMENT.PASS);
  });
});
