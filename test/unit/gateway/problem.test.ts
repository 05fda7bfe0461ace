/** Errors over HTTP: one status for each code, nothing of a fault, and paths of fields that do not fit. */
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { CountersignError, ERRORS, isErrorCode } from '../../../contracts/errors.ts';
import { ProblemDetails } from '../../../contracts/schemas/http-api.ts';
import { GatewayConfig } from '../../../contracts/schemas/gateway.ts';
import { HttpUrl } from '../../../contracts/schemas/json.ts';
import { problemsOf } from '../../../contracts/schemas/parse.ts';
import { codedOf, isForOperator, Misfit, problemOf } from '../../../gateway/http/problem.ts';
import { createServer } from '../../../gateway/http/server.ts';
import { People } from '../../../gateway/identity/person.ts';
import { Sessions } from '../../../gateway/identity/sessions.ts';

/** A server without routes, of a gateway that asks nobody who they are. */
async function emptyServer() {
  const config = GatewayConfig.parse({ development: true });
  const none = async (): Promise<never> => await Promise.reject(new Error('not asked here'));
  const sessions = new Sessions(config, new People(config.may), undefined, none);
  return await createServer({ config, tokens: { isDevelopment: true, askerOf: none }, sessions });
}

test.each(Object.keys(ERRORS).filter(isErrorCode))('%s is told as a problem with the status of the table', (code) => {
  const problem = problemOf(new CountersignError(code, 'It went wrong.', { runId: 'r' }), 'q-1');
  expect(ProblemDetails.parse(problem)).toMatchObject({ code, status: ERRORS[code].httpStatus, requestId: 'q-1' });
});

test('a fault tells nothing but its code', () => {
  const problem = problemOf(codedOf(new Error('token=abc at /etc/secret')), 'q-1');
  expect(problem).toMatchObject({ status: 500, code: 'INTERNAL', facts: {} });
  expect(JSON.stringify(problem)).not.toMatch(/abc|secret/);
});

test('each field that does not fit is told by its path, without its value', () => {
  const schema = z.strictObject({ digest: z.string().regex(/^x$/, 'must be x'), deep: z.object({ n: z.int() }) });
  const input = { digest: 'hunter2', deep: { n: 'hunter2' }, more: 1 };
  const { error } = schema.safeParse(input);
  if (error === undefined) throw new Error('it fits');
  const problem = problemOf(new Misfit(problemsOf(error, input), 'body'), 'q-1');
  expect(problem.status).toBe(422);
  expect(problem.errors?.map(({ path }) => path)).toEqual(['digest', 'deep.n', 'more']);
  expect(JSON.stringify(problem)).not.toContain('hunter2');
});

test('what does not fit is a sentence, in words that people have for the parts of a request', async () => {
  const app = await emptyServer();
  const n = z.coerce.number();
  const schema = {
    body: z.strictObject({ url: HttpUrl }),
    querystring: z.object({ n }),
    params: z.object({ n }),
    headers: z.object({ n }),
  };
  app.post('/:n', { config: { isOpen: true }, schema, handler: async () => await Promise.resolve({}) });
  const base = await app.listen({ host: '127.0.0.1', port: 0 });
  const told = async (path: string, body: object, more: object = {}): Promise<unknown> => {
    const headers = { 'content-type': 'application/json', n: '1', ...more };
    const answer = await fetch(new URL(path, base), { method: 'POST', headers, body: JSON.stringify(body) });
    return ProblemDetails.parse(await answer.json()).detail.replace(' Correct it and try again.', '');
  };
  const fitting = { url: 'https://example.com' };
  expect(await told('/1?n=1', [])).toBe('The body is not valid: it must be an object, not a list.');
  expect(await told('/1?n=1', { url: 'ftp://x' })).toBe('The body is not valid: url must be an http or https URL.');
  expect(await told('/1?n=x', fitting)).toBe('The query is not valid: n must be a number, not this text.');
  expect(await told('/x?n=1', fitting)).toBe('The path is not valid: n must be a number, not this text.');
  expect(await told('/1?n=1', fitting, { n: 'x' })).toBe('The header is not valid: n must be a number, not this text.');
  await app.close();
});

test('a setting of the gateway that is wrong is no field of the request, and its operator hears of it', () => {
  const keys = new CountersignError('CONFIG_INVALID', 'Their keys differ.', { path: 'encryption.keys' });
  expect(problemOf(keys, 'q-1').errors).toBeUndefined();
  expect(isForOperator(keys)).toBe(true);
  expect(isForOperator(new CountersignError('ENGINE_UNAVAILABLE', 'It is away.'))).toBe(true);
  const field = new CountersignError('SPEC_INVALID', 'It is missing.', { path: 'input' });
  expect(problemOf(field, 'q-1').errors).toEqual([{ path: 'input', reason: 'It is missing.' }]);
  expect(isForOperator(field)).toBe(false);
});

test('errors of the server itself have codes, too', () => {
  const of = (code: string, statusCode: number): string =>
    codedOf(Object.assign(new Error(code), { code, statusCode })).code;
  expect(of('FST_ERR_CTP_BODY_TOO_LARGE', 413)).toBe('BODY_TOO_LARGE');
  expect(of('FST_ERR_CTP_INVALID_MEDIA_TYPE', 415)).toBe('BODY_UNREADABLE');
  expect(of('FST_ERR_CTP_EMPTY_JSON_BODY', 400)).toBe('BODY_UNREADABLE');
});

test('INV-G1: a body whose numbers would be read as others, or of which a member would not be read, is refused', async () => {
  const app = await emptyServer();
  app.post('/said', { config: { isOpen: true }, handler: async ({ body }) => body });
  const base = await app.listen({ host: '127.0.0.1', port: 0 });
  const said = async (body: string): Promise<{ readonly status: number; readonly json: unknown }> => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(new URL('/said', base), { method: 'POST', headers, body });
    return { status: answer.status, json: await answer.json() };
  };
  try {
    expect((await said('{"account":9007199254740992}')).json).toEqual({ account: 9_007_199_254_740_992 });
    const refused = await said('{"account":9007199254740993}');
    expect(refused.status).toBe(422);
    expect(refused.json).toMatchObject({ code: 'USAGE', detail: expect.stringContaining('holds 9007199254740993') });
    expect(await said('{"args":{"to":"ann","to":"ben"}}')).toMatchObject({
      status: 422,
      json: { code: 'USAGE', detail: expect.stringContaining('has two members called "to"') },
    });
    const told = async (body: string): Promise<unknown> => (await said(body)).json;
    const saying = (words: string): object => ({ code: 'USAGE', detail: expect.stringContaining(words) });
    expect(await told('{"a":{"__proto__":{}}}')).toMatchObject(saying('has a field called __proto__'));
    expect(await told('{"constructor":{"prototype":1}}')).toMatchObject(saying('prototype in one called constructor'));
    expect(await told(`${'['.repeat(1_001)}${']'.repeat(1_001)}`)).toMatchObject(saying('nests deeper than 1000'));
    expect((await said(`${'['.repeat(1_000)}${']'.repeat(1_000)}`)).status).toBe(200);
    expect((await said('{')).json).toMatchObject({ code: 'BODY_UNREADABLE' });
  } finally {
    await app.close();
  }
});
