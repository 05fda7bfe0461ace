/** `--deadline` ends every command that Temporal does not answer (S2.3). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { errorOf, runCommand } from '../support/cli.ts';
import { type SilentEngine, startSilentEngine } from '../support/servers/silent-engine.ts';

let engine: SilentEngine;
beforeAll(async () => {
  engine = await startSilentEngine();
});
afterAll(async () => engine.close());

const COMMANDS = {
  watch: [['watch', 'some-run'], 'DescribeWorkflowExecution'],
  setup: [['setup'], 'DescribeNamespace'],
  'replay --live': [['replay', '--live'], 'ListWorkflowExecutions'],
  'keys zone used': [['keys', 'zone', 'used', 'zone-1'], 'ListWorkflowExecutions'],
  show: [['show', 'some-run'], 'QueryWorkflow'],
} as const;

test('exit code 6, and nobody is told that something may have been changed', async () => {
  const ended = await Promise.all(
    Object.entries(COMMANDS).map(async ([what, [args]]) => {
      const result = await runCommand([...args, '--json', '--address', engine.address, '--deadline', '3']);
      return { what, exitCode: result.exitCode, ...errorOf(result) };
    }),
  );
  expect(ended).toEqual(
    Object.keys(COMMANDS).map((what) =>
      expect.objectContaining({
        what,
        exitCode: 6,
        code: 'ENGINE_UNAVAILABLE',
        message: expect.not.stringContaining('taken the message'),
      }),
    ),
  );
  // Each had got through, and was kept waiting.
  expect(engine.waiting).toEqual(expect.arrayContaining(Object.values(COMMANDS).map(([, method]) => method)));
});
