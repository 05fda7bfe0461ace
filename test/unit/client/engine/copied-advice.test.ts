/** People copy the commands that an error names: the id of a run, which somebody else may have chosen, is one word there. */
import { expect, test } from '@jest/globals';
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import { ServiceError } from '@temporalio/client';
import { plain, type Terminal } from '../../../../cli/session/terminal.ts';
import { startedAnswer } from '../../../../cli/verbs/start.ts';
import { troubleOf } from '../../../../client/engine/trouble.ts';
import type { RunHandle } from '../../../../client/index.ts';
import { answerIn } from '../../../../client/run/single-call.ts';
import type { RunResult } from '../../../../contracts/schemas/run-state.ts';

const RUN = 'x; touch /tmp/gone';

test('in advice of the library', () => {
  const refused = { code: grpcStatus.FAILED_PRECONDITION, details: 'It fails.', metadata: new Metadata() };
  const cause = Object.assign(new Error('It fails.'), refused);
  const stuck = troubleOf(new ServiceError('It fails.', { cause }), RUN).message;
  // Sound: nothing else of a result is read.
  const ended = (status: string): RunResult => ({ status, output: 'words of a model' }) as unknown as RunResult;
  const told = (status: string): string => {
    try {
      return JSON.stringify(answerIn(RUN, ended(status)));
    } catch (error) {
      return String(error);
    }
  };
  for (const advice of [stuck, told('completed'), told('stopped')]) {
    expect(advice).toMatch(/countersign (?:show|result|ledger) 'x; touch \/tmp\/gone'/);
    expect(advice).not.toContain(`countersign recover ${RUN}`);
  }
});

test('a run without a worker has one started: it is not recovered, and nothing can be read of it', () => {
  const details = 'no poller seen for task queue recently, worker may be down';
  const cause = Object.assign(new Error(details), {
    code: grpcStatus.FAILED_PRECONDITION,
    details,
    metadata: new Metadata(),
  });
  const stuck = troubleOf(new ServiceError('It fails.', { cause }), 'run-1');
  expect(stuck.code).toBe('RUN_STUCK');
  expect(stuck.message).toContain('Start a worker');
  // The build that the run stays with may be gone, while workers of another one take new runs.
  expect(stuck.message).toContain('countersign deploy drain BUILD --move');
  expect(stuck.message).not.toMatch(/countersign (?:show|recover)/);
});

test('after a start', async () => {
  // Sound: a run that was there before is asked nothing, and nothing is written.
  const run = { runId: RUN, started: false } as unknown as RunHandle & { readonly started: boolean };
  const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };
  const how = { terminal: { paint: plain } as unknown as Terminal, options: {} };
  const { text } = await startedAnswer(run, { spec, wait: false, deadline: undefined }, how);
  for (const name of ['watch', 'requests', 'result'])
    expect(text(plain)).toContain(`countersign ${name} 'x; touch /tmp/gone'`);
});

test('the tenant of a catalog, too', () => {
  const refused = { code: grpcStatus.NOT_FOUND, details: 'It is not there.', metadata: new Metadata() };
  const cause = Object.assign(new Error('It is not there.'), refused);
  const { message } = troubleOf(new ServiceError('It fails.', { cause }), { tenant: 'a;id', server: 'files' });
  expect(message).toContain("countersign catalog connect files --tenant 'a;id' --as ID");
});
