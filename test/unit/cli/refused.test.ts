/** A Temporal that answers and does not let us in is not one that is away: the operator is sent to the key, not to the network. */
import { afterEach, expect, test } from '@jest/globals';
import { Server, ServerCredentials, status as grpcStatus } from '@grpc/grpc-js';
import { errorOf, runCommand } from '../../support/cli.ts';
import { useConfigFolders } from '../../support/config-folder.ts';
import { withCode } from '../../support/refusal.ts';

const { folder } = useConfigFolders();
let server: Server | undefined;
afterEach(() => server?.forceShutdown());

/** @returns a folder with a configuration: a worker needs one before it asks for Temporal */
async function configured(): Promise<string> {
  return await folder({ 'countersign.yaml': 'taskQueue: refused\n' });
}

const asItCame = (bytes: Buffer): Buffer => bytes;
/** The first call of every connection. */
const HELLO = {
  path: '/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo',
  requestStream: false,
  responseStream: false,
  requestSerialize: asItCame,
  requestDeserialize: asItCame,
  responseSerialize: asItCame,
  responseDeserialize: asItCame,
} as const;

/** @returns its address */
async function startRefusing(code: number): Promise<string> {
  const refusing = new Server();
  server = refusing;
  const details = 'Request unauthorized.';
  refusing.addService(
    { hello: HELLO },
    { hello: (_call: unknown, answer: (error: object) => void) => answer({ code, details }) },
  );
  const port = await new Promise<number>((resolve, reject) => {
    refusing.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  return `127.0.0.1:${port}`;
}

test.each([
  ['show run-1', 'UNAUTHENTICATED'],
  ['show run-1', 'PERMISSION_DENIED'],
  ['worker', 'UNAUTHENTICATED'],
  ['worker', 'PERMISSION_DENIED'],
] as const)('%s where Temporal says %s: CONFIG_INVALID, exit code 2, with its reason', async (line, name) => {
  const address = await startRefusing(grpcStatus[name]);
  const result = await runCommand([...line.split(' '), '--address', address, '--json'], {
    directory: await configured(),
  });
  expect(result.exitCode).toBe(2);
  expect(errorOf(result)).toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringMatching(/API key or certificate.*Request unauthorized\.$/),
  });
});

test('a worker for which there is nobody, in the time that it is given: ENGINE_UNAVAILABLE with the address, exit code 6', async () => {
  const args = ['worker', '--address', '127.0.0.1:1', '--deadline', '1', '--json'];
  const result = await runCommand(args, { directory: await configured() });
  expect(result.exitCode).toBe(6);
  expect(errorOf(result)).toMatchObject(withCode('ENGINE_UNAVAILABLE', '127.0.0.1:1'));
});
