/** A hosted call at its dispatch (docs/adr/0080). */
import { expect, test } from '@jest/globals';
import { Config } from '../../../../contracts/schemas/config.ts';
import { dispatchScene, DISPATCH_URL as url } from '../../../support/activities/dispatch.ts';

test('INV-X1: a hosted call is approved once: what its provider tells of a 401 brings no other token', async () => {
  const { dispatched, partsWith, done } = dispatchScene();
  const [known] = await partsWith({}).loadToolset([]);
  if (known === undefined) throw new Error('the scene has no tool');
  const tool = { ...known, hosted: { model: 'gpt' } };
  const result = await dispatched(
    {
      config: Config.parse({
        policy: { strategy: 'never' },
        models: { gpt: { provider: 'openai', model: 'gpt-5.1' } },
        servers: { files: { url, execute: 'hosted' } },
      }),
      loadToolset: async () => [tool],
      broker: {
        mint: async ({ refused }) => ({ accessToken: `${refused}+`, evidence: { strategy: 'given' }, secrets: [] }),
      },
      server: {
        list: () => Promise.reject(new Error('not here')),
        call: async () => {
          done.push('approved');
          return { kind: 'refused', code: 'TOOL_UNAUTHORIZED', message: '401' };
        },
      },
    },
    {
      server: { name: 'files', url, hosted: 'gpt' },
      target: { server: 'files', serverUrl: url, tool: 'write_file', definitionHash: tool.hash, hosted: 'gpt' },
      approvalRequestId: 'mcpr_1',
    },
  );
  expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'failed', code: 'TOOL_UNAUTHORIZED' } });
  expect(done.filter((step) => step === 'approved')).toHaveLength(1);
});
