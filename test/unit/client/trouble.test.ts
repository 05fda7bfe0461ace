/** Whatever Temporal answers, a caller gets one code of the table, which says whether to try again (INV-D3). */
import { expect, test } from '@jest/globals';
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import { ServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure, NamespaceNotFoundError } from '@temporalio/common';
import { troubleOf } from '../../../client/trouble.ts';
import { type ErrorCode, traitsOf } from '../../../contracts/errors.ts';

/** gRPC status → code of a call about a run, code of a call about none in particular. */
const CODES: Readonly<Record<keyof typeof grpcStatus, readonly [ErrorCode, ErrorCode]>> = {
  OK: ['INTERNAL', 'INTERNAL'],
  CANCELLED: ['RESULT_UNCERTAIN', 'ENGINE_UNAVAILABLE'],
  UNKNOWN: ['INTERNAL', 'INTERNAL'],
  INVALID_ARGUMENT: ['USAGE', 'USAGE'],
  DEADLINE_EXCEEDED: ['RESULT_UNCERTAIN', 'ENGINE_UNAVAILABLE'],
  NOT_FOUND: ['RUN_NOT_FOUND', 'SETUP_INCOMPLETE'],
  ALREADY_EXISTS: ['INTERNAL', 'INTERNAL'],
  PERMISSION_DENIED: ['CONFIG_INVALID', 'CONFIG_INVALID'],
  RESOURCE_EXHAUSTED: ['ENGINE_UNAVAILABLE', 'ENGINE_UNAVAILABLE'],
  FAILED_PRECONDITION: ['RUN_STUCK', 'INTERNAL'],
  ABORTED: ['INTERNAL', 'INTERNAL'],
  OUT_OF_RANGE: ['INTERNAL', 'INTERNAL'],
  UNIMPLEMENTED: ['INTERNAL', 'INTERNAL'],
  INTERNAL: ['INTERNAL', 'INTERNAL'],
  UNAVAILABLE: ['ENGINE_UNAVAILABLE', 'ENGINE_UNAVAILABLE'],
  DATA_LOSS: ['INTERNAL', 'INTERNAL'],
  UNAUTHENTICATED: ['CONFIG_INVALID', 'CONFIG_INVALID'],
};

function grpcError(code: number): Error {
  return Object.assign(new Error(`${code} of Temporal`), { code, details: 'It said so.', metadata: new Metadata() });
}

test('the table names every status', () => {
  const names = Object.keys(grpcStatus).filter((name) => !/^\d+$/.test(name));
  expect(Object.keys(CODES).sort()).toEqual(names.sort());
});

// Sound: the keys of a literal object.
test.each(Object.keys(CODES) as (keyof typeof CODES)[])('%s, as it comes and as the SDK wraps it', (name) => {
  const cause = grpcError(grpcStatus[name]);
  const wrapped = new ServiceError('Failed to do it', { cause });
  const [ofRun, ofNone] = CODES[name];
  for (const error of [cause, wrapped]) {
    const trouble = troubleOf(error, 'run-1');
    expect(trouble).toMatchObject({ code: ofRun, facts: { runId: 'run-1' }, cause: error });
    const general = troubleOf(error, '');
    expect(general).toMatchObject({ code: ofNone, facts: {}, cause: error });
    expect(general.message).not.toMatch(/[Rr]un {2}/);
  }
});

test('what a limit refused may be sent again unchanged, what a lock refused may not', () => {
  const limited = troubleOf(grpcError(grpcStatus.RESOURCE_EXHAUSTED), 'run-1');
  expect(limited.traits.retryable).toBe(true);
  expect(limited.message).toContain('It said so.');
  const locked = troubleOf(grpcError(grpcStatus.PERMISSION_DENIED), 'run-1');
  expect(locked.traits.retryable).toBe(false);
  expect(locked.message).toMatch(/API key or certificate/);
});

test.each(['run-1', ''])(
  'a namespace that is not there is named, with the command that prepares one (run id "%s")',
  (runId) => {
    const trouble = troubleOf(new NamespaceNotFoundError('elsewhere'), runId);
    expect(trouble.code).toBe('SETUP_INCOMPLETE');
    expect(traitsOf(trouble.code).exitCode).toBe(6);
    expect(trouble.message).toContain('countersign setup --namespace elsewhere');
  },
);

test('about a catalog the same is said of the catalog, with the command that begins one', () => {
  const about = { tenant: 'acme', server: 'files' };
  for (const error of [
    grpcError(grpcStatus.NOT_FOUND),
    new WorkflowNotFoundError('gone', 'catalog/acme/files', undefined),
  ]) {
    const missing = troubleOf(error, about);
    expect(missing).toMatchObject({ code: 'CATALOG_NOT_FOUND', facts: about });
    expect(missing.message).toContain('countersign catalog connect files --tenant acme --as ID');
  }
  const stuck = troubleOf(grpcError(grpcStatus.FAILED_PRECONDITION), about);
  expect(stuck).toMatchObject({ code: 'CATALOG_UNAVAILABLE', facts: about });
  expect(stuck.message).toContain('countersign recover catalog/acme/files');
  for (const [name, code] of [
    ['DEADLINE_EXCEEDED', 'RESULT_UNCERTAIN'],
    ['UNAVAILABLE', 'ENGINE_UNAVAILABLE'],
    ['INTERNAL', 'INTERNAL'],
  ] as const) {
    const trouble = troubleOf(grpcError(grpcStatus[name]), about);
    expect(trouble).toMatchObject({ code, facts: about });
    expect(trouble.message).not.toMatch(/\b[Rr]un\b/);
  }
  const refused = ApplicationFailure.create({
    type: 'CATALOG_FORBIDDEN',
    message: 'No.',
    details: [{ right: 'loosen' }],
  });
  expect(troubleOf(refused, about)).toMatchObject({
    code: 'CATALOG_FORBIDDEN',
    message: 'No.',
    facts: { ...about, right: 'loosen' },
  });
});
