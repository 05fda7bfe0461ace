/** `${NAME}` in values of the configuration: secrets come from the environment and stay values (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Environment } from '../../../../workers/config/load.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { refusalOf } from '../../../support/refusal.ts';

const { load } = useConfigFolders();

describe('${NAME} in values', () => {
  const secret =
    'servers:\n  notes:\n    url: https://${HOST:-notes.example.com}/mcp\n    headers: {X-Api-Key: "k ${KEY}"}\n';

  test('is replaced, with its default where the variable is unset or empty', async () => {
    const server = async (environment: Environment) => (await load(secret, environment)).config.servers['notes'];
    expect(await server({ KEY: 'v' })).toMatchObject({
      url: 'https://notes.example.com/mcp',
      headers: { 'X-Api-Key': 'k v' },
    });
    expect(await server({ KEY: 'v', HOST: '' })).toMatchObject({ url: 'https://notes.example.com/mcp' });
    expect(await server({ KEY: '', HOST: 'h.example.com' })).toMatchObject({
      url: 'https://h.example.com/mcp',
      headers: { 'X-Api-Key': 'k ' },
    });
  });

  test('names the variable and the path where it is not set', async () => {
    expect(await refusalOf(load(secret, { OTHER: 'x' }))).toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining(
        'servers.notes.headers.X-Api-Key needs the environment variable KEY, which is not set',
      ),
      facts: { path: 'servers.notes.headers.X-Api-Key' },
    });
  });

  test('INV-S1: what a variable holds is never YAML, never another reference, and never in an error', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string(),
          fc.constantFrom('"}\npolicy: {strategy: never}', '${KEY}', '$${KEY}', '${', ': #', "$&$1$'"),
        ),
        async (value) => {
          const yaml = 'taskQueue: q\nmodels: {m: {provider: openai, model: m, apiKey: "${KEY}"}}';
          const loaded = await load(yaml, { KEY: `x${value}` });
          expect(loaded.config).toMatchObject({ taskQueue: 'q', policy: {}, models: { m: { apiKey: `x${value}` } } });
        },
      ),
      { numRuns: 50 },
    );
    const error = await refusalOf(load('policy: {strategy: "${KEY}"}', { KEY: 'canary' }));
    expect(`${error.message}${JSON.stringify(error.facts)}`).not.toContain('canary');
  });

  test('INV-S1: what variables put into the headers of a server is known as theirs, and no default', async () => {
    const { headerSecrets } = await load(
      `servers:
  notes:
    url: https://\${HOST}/mcp
    headers: {X-Ward: "a \${ONE}\${TWO:-other} b", X-Zone: "\${ZONE:-north}", X-Plain: "$\${ONE}"}
  files: {url: "https://files.example.com/mcp", headers: {X-Ward: "\${TWO}"}}
models: {m: {provider: openai, model: "\${TWO}"}}
`,
      { HOST: 'notes.example.com', ONE: 'first ', TWO: 'second', ZONE: '' },
    );
    expect(headerSecrets).toEqual(
      new Map([
        ['notes', ['first ', 'second']],
        ['files', ['second']],
      ]),
    );
  });

  test.each(['${}', '${1A}', '${A B}', '${A', '${A:+x}', '${canary-name'])(
    '%s is refused as no reference',
    async (text) => {
      const error = await refusalOf(load(`models: {m: {provider: openai, model: "${text}"}}`, { A: 'x' }));
      expect(error).toMatchObject({ code: 'CONFIG_INVALID', facts: { path: 'models.m.model' } });
      expect(error.message).not.toContain('canary');
    },
  );

  test('$${NAME} is the text ${NAME}, and other dollars stay', async () => {
    const { config } = await load('models: {m: {provider: openai, model: "$${A} $A $$ 5$"}}');
    expect(config.models['m']).toMatchObject({ model: '${A} $A $$ 5$' });
  });

  test('is not looked for in field names, and a name of the language is no variable', async () => {
    expect((await refusalOf(load('servers: {"${A}": {url: "https://a.example.com"}}', { A: 'x' }))).facts.path).toBe(
      'servers["${A}"]',
    );
    expect((await refusalOf(load('taskQueue: "${constructor}"'))).message).toContain('constructor, which is not set');
  });

  test('a default may be empty and may hold anything but a closing brace', async () => {
    const { config } = await load('models: {m: {provider: openai, model: "x${A:-}y${B:-a:-b $}"}}');
    expect(config.models['m']).toMatchObject({ model: 'xya:-b $' });
  });
});
