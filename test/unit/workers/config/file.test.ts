/** `countersign.yaml`: where it is looked for, and one clear error for each mistake in it (acceptance "Bad config"). */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../../../workers/config/load.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { refusalOf } from '../../../support/refusal.ts';

const { folder, load } = useConfigFolders();

describe('where the configuration comes from', () => {
  test('nothing at all gives the defaults, relative to the working directory', async () => {
    const directory = await folder();
    const { config, path, baseDirectory } = await loadConfig(undefined, {}, directory);
    expect(config).toMatchObject({ taskQueue: 'countersign', servers: {}, policy: { givenTokens: 'allow' } });
    expect({ path, baseDirectory }).toEqual({ path: undefined, baseDirectory: directory });
  });

  test('a file that is empty but for comments gives the defaults', async () => {
    expect((await load('# nothing yet\n')).config.taskQueue).toBe('countersign');
  });

  test('--config comes before COUNTERSIGN_CONFIG, and that before the file of the working directory', async () => {
    const directory = await folder({
      'a.yaml': 'taskQueue: a',
      'b.yaml': 'taskQueue: b',
      'countersign.yaml': 'taskQueue: c',
    });
    const environment = { COUNTERSIGN_CONFIG: 'b.yaml' };
    const first = await loadConfig('a.yaml', environment, directory);
    expect(first).toMatchObject({
      config: { taskQueue: 'a' },
      path: join(directory, 'a.yaml'),
      baseDirectory: directory,
    });
    expect((await loadConfig(undefined, environment, directory)).config.taskQueue).toBe('b');
    expect((await loadConfig(undefined, { COUNTERSIGN_CONFIG: '' }, directory)).config.taskQueue).toBe('c');
  });

  test('an error names a file by its whole path where the process was started in the root, as services are', async () => {
    const path = join(await folder({ 'countersign.yaml': 'taskQueues: a' }), 'countersign.yaml');
    const error = await refusalOf(loadConfig(path, {}, '/'));
    expect(error.message).toContain(`The configuration file ${path} is not valid: taskQueues `);
  });

  test('a file elsewhere brings its own base directory', async () => {
    const elsewhere = await folder({ 'x.yaml': 'taskQueue: x' });
    const { baseDirectory } = await loadConfig(join(elsewhere, 'x.yaml'), {}, await folder());
    expect(baseDirectory).toBe(elsewhere);
  });

  test('a named file that is not there is an error that says who named it', async () => {
    const directory = await folder();
    expect(await refusalOf(loadConfig('gone.yaml', {}, directory))).toMatchObject({
      code: 'CONFIG_INVALID',
      message:
        'The configuration file gone.yaml, named by --config, cannot be read (ENOENT). Name a file that this user may read.',
    });
    expect((await refusalOf(loadConfig(undefined, { COUNTERSIGN_CONFIG: 'gone.yaml' }, directory))).message).toContain(
      'named by COUNTERSIGN_CONFIG',
    );
  });

  test('a folder in the place of the file is an error, not a missing file', async () => {
    const directory = await folder();
    await mkdir(join(directory, 'countersign.yaml'));
    expect((await refusalOf(loadConfig(undefined, {}, directory))).message).toContain('EISDIR');
  });
});

describe('a file that is no proper YAML', () => {
  test.each([
    ['a field twice', 'taskQueue: a\ntaskQueue: canary\n', 'line 2, column 1: the field stands here a second time'],
    ['a server twice', 'servers:\n  a: {url: "https://a"}\n  a: {url: "https://canary"}\n', 'line 3'],
    ['a tab', 'servers:\n\tnotes: canary\n', 'a tab is used to indent'],
    ['an open quote', 'taskQueue: "canary\n', 'a character is missing'],
    ['two documents', 'taskQueue: a\n---\ntaskQueue: canary\n', 'a second document begins'],
    ['a tag', 'taskQueue: !secret canary\n', 'tags'],
    ['an alias without anchor', 'taskQueue: *canary\n', 'alias'],
    [
      'aliases that explode',
      `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n`,
      'alias',
    ],
  ])('%s is refused at its line, and the line is not shown', async (_what, yaml, reason) => {
    const error = await refusalOf(load(yaml));
    expect(error.code).toBe('CONFIG_INVALID');
    expect(error.message).toContain('configuration file countersign.yaml');
    expect(error.message).toContain(reason);
    expect(error.message).not.toContain('canary');
  });

  test('a list in the place of the fields is refused', async () => {
    expect((await refusalOf(load('- a\n'))).message).toContain('must be an object, not a list');
  });
});

test.each([
  ['servers.notes.url', 'servers: {notes: {url: canary}}'],
  ['servers.notes.urll', 'servers: {notes: {url: "https://a.example.com", urll: canary}}'],
  ['servers.notes.credentials.kind', 'servers: {notes: {url: "https://a.example.com", credentials: {kind: canary}}}'],
  [
    'servers.notes.credentials.clientSecret',
    'servers: {notes: {url: "https://a.example.com", credentials: {kind: client-credentials, issuer: "https://i.example.com", clientId: a}}}',
  ],
  [
    'servers.notes.headers["bad name"]',
    'servers: {notes: {url: "https://a.example.com", headers: {"bad name": canary}}}',
  ],
  ['policy.strategy', 'policy: {strategy: canary}'],
  ['models.main.provider', 'models: {main: {provider: canary}}'],
  ['encryption.keys[0].key', 'encryption: {keys: [{id: a, key: canary}]}'],
  ['worker.maxCachedWorkflows', 'worker: {maxCachedWorkflows: canary}'],
  ['limits.turns', 'limits: {turns: 0}'],
  ['__proto__', '__proto__: {taskQueue: canary}'],
  ['policy.servers.__proto__', 'policy: {servers: {__proto__: {tools: {pay: deny}}}}'],
  ['policy.servers.bank.tools.__proto__', 'policy: {servers: {bank: {tools: {__proto__: deny}}}}'],
])('a field that is wrong: is named by its path: %s', async (path, yaml) => {
  const error = await refusalOf(load(yaml));
  expect(error).toMatchObject({ code: 'CONFIG_INVALID', facts: { path } });
  expect(error.message).toContain(`configuration file countersign.yaml is not valid: ${path} `);
  expect(error.message).toContain('Correct it and try again.');
  expect(error.message).not.toContain('canary');
});

describe('scopes for reading linked resources (INV-S2)', () => {
  const server = (scopes: string, resourceLinks = 'read', kind = 'client-credentials'): string =>
    `servers: {notes: {url: "https://a.example.com", resourceLinks: ${resourceLinks}, credentials: {kind: ${kind}, issuer: "https://i.example.com", clientId: a, clientSecret: canary, scopes: ${scopes}}}}`;
  const path = 'servers.notes.credentials.scopes.resources';

  test.each(['{default: [call]}', '{tools: {pay: [pay]}}', '{discovery: [list]}', '{consentable: [pay]}'])(
    'must be named where others are, or the token had whatever its issuer gives: %s',
    async (scopes) => {
      const error = await refusalOf(load(server(scopes)));
      expect(error).toMatchObject({ code: 'CONFIG_INVALID', facts: { path } });
      expect(error.message).toContain('[] says that this is meant');
      expect(error.message).not.toContain('canary');
    },
  );

  test.each([
    ['named', server('{default: [call], resources: [read]}')],
    ['said to be none', server('{default: [call], resources: []}')],
    ['not wanted, since nothing is read', server('{default: [call]}', 'keep')],
    ['at an issuer that is asked for none', server('{}')],
  ])('are %s', async (_, yaml) => {
    expect((await load(yaml)).config.servers['notes']).toBeDefined();
  });

  test('are none nowhere, where a refresh token would give all of its grant', async () => {
    const vault = 'vault: {kind: environment, variables: {}}';
    const scopes = '{discovery: [list], default: [call], resources: []}';
    const error = await refusalOf(load(`${server(scopes, 'read', 'refresh')}\n${vault}`));
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', facts: { path } });
    expect(error.message).toContain('must name a scope');
  });
});
