/** A client reads of the workers' configuration what it needs, and nothing else (INV-S1). */
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { artifactReader, loadClientSettings, loadPolicySettings } from '../../../../cli/session/session.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { atPath, withCode } from '../../../support/refusal.ts';

const { folder } = useConfigFolders();

test('without a file all is default, and the artifact folder is that of workers started here', async () => {
  const directory = await folder();
  expect(await loadClientSettings(undefined, { env: {}, directory })).toEqual({
    taskQueue: 'countersign',
    encryption: { keys: [] },
    artifacts: { kind: 'directory', directory: join(directory, '.countersign/artifacts') },
    serverUrls: {},
    trusted: {},
    repeatable: {},
    isSigned: false,
    policy: { givenTokens: 'allow' },
    channels: [],
  });
});

test('secrets of servers and models are not asked for', async () => {
  const yaml = `
    taskQueue: agents
    trust: { mode: signed, jwks: { keys: [] } }
    policy: { strategy: never, approvers: { groups: [ops] } }
    artifacts: { directory: stored }
    servers:
      tickets: { url: 'https://tickets.example.com/mcp', trusted: true, credentials: { kind: client-credentials, clientSecret: '\${NOT_HERE}' } }
      notes: { url: 'https://notes.example.com/mcp' }
    models: { main: { provider: openai, model: x, apiKey: '\${NOR_HERE}' } }
    notify: { channels: { desk: { kind: webhook, url: 'https://desk.example', secret: '\${NEITHER_HERE}' } } }
  `;
  const directory = await folder({ 'countersign.yaml': yaml });
  expect(await loadClientSettings(undefined, { env: {}, directory })).toEqual({
    taskQueue: 'agents',
    encryption: { keys: [] },
    artifacts: { kind: 'directory', directory: join(directory, 'stored') },
    serverUrls: { tickets: 'https://tickets.example.com/mcp', notes: 'https://notes.example.com/mcp' },
    trusted: { tickets: true, notes: false },
    repeatable: { tickets: [], notes: [] },
    isSigned: true,
    policy: { strategy: 'never', approvers: { ids: [], groups: ['ops'] }, givenTokens: 'allow' },
    path: join(directory, 'countersign.yaml'),
    channels: ['desk'],
  });
});

test('payload keys are, and one that is missing is named', async () => {
  const directory = await folder({ 'countersign.yaml': `encryption: { keys: [{ id: a, key: '\${PAYLOAD_KEY}' }] }` });
  const key = Buffer.alloc(32, 1).toString('base64');
  expect((await loadClientSettings(undefined, { env: { PAYLOAD_KEY: key }, directory })).encryption).toEqual({
    keys: [{ id: 'a', key }],
  });
  await expect(loadClientSettings(undefined, { env: {}, directory })).rejects.toMatchObject(
    atPath('CONFIG_INVALID', 'encryption.keys[0].key'),
  );
});

const BUCKET = `
  artifacts:
    s3: { endpoint: 'https://s3.example.com', bucket: artifacts, accessKeyId: '\${S3_ID}', secretAccessKey: '\${S3_SECRET}' }
`;

test('credentials of a bucket are read where they are; where they are not, only who reads an artifact is told', async () => {
  const directory = await folder({ 'countersign.yaml': BUCKET });
  const env = { S3_ID: 'reader', S3_SECRET: 'canary' };
  expect((await loadClientSettings(undefined, { env, directory })).artifacts).toMatchObject({
    kind: 'bucket',
    bucket: { bucket: 'artifacts', accessKeyId: 'reader', region: 'us-east-1' },
  });
  const { artifacts } = await loadClientSettings(undefined, { env: { S3_ID: 'reader' }, directory });
  const read = artifactReader(artifacts).get({ sha256: 'a'.repeat(64), bytes: 1, contentType: '' });
  await expect(read).rejects.toMatchObject(withCode('ARTIFACT_MISSING', 'S3_SECRET'));
  expect(await loadPolicySettings(undefined, { env: {}, directory })).toMatchObject({ serverUrls: {} });
});

test('a bucket is read in clear where workers may do that, and nowhere else', async () => {
  const clear = BUCKET.replace('https', 'http');
  const env = { S3_ID: 'reader', S3_SECRET: 'canary' };
  const of = async (text: string) =>
    (await loadClientSettings(undefined, { env, directory: await folder({ 'countersign.yaml': text }) })).artifacts;
  const refused = await of(clear);
  expect(() => artifactReader(refused)).toThrow(/endpoint must use https/);
  const allowed = await of(`${clear}\n  egress: { allowInsecure: true }\n`);
  expect(() => artifactReader(allowed)).not.toThrow();
});

test('a bucket that is described wrongly is refused with its field', async () => {
  const directory = await folder({ 'countersign.yaml': BUCKET.replace('bucket: artifacts', 'bucket: ../up') });
  await expect(loadClientSettings(undefined, { env: { S3_ID: 'a', S3_SECRET: 'b' }, directory })).rejects.toMatchObject(
    { code: 'CONFIG_INVALID', facts: { path: 'artifacts.s3.bucket' } },
  );
});

test.each([
  ['a list', '- a'],
  ['a wrong field', 'artifacts: 3'],
  ['servers that are none', 'servers: [a]'],
  ['a policy that nobody knows', 'policy: { strategy: sometimes }'],
])('%s is refused with the file named', async (_what, yaml) => {
  const directory = await folder({ 'countersign.yaml': yaml });
  await expect(loadClientSettings(undefined, { env: {}, directory })).rejects.toMatchObject(
    withCode('CONFIG_INVALID', 'countersign.yaml'),
  );
});

test('the name of the deployment is read from a variable where that is set, and is not known where it is not', async () => {
  const directory = await folder({ 'countersign.yaml': 'worker: { deployment: { name: "agents-${STAGE}" } }' });
  const named = async (env: Readonly<Record<string, string>>) =>
    (await loadClientSettings(undefined, { env, directory })).deployment;
  expect(await named({ STAGE: 'blue' })).toBe('agents-blue');
  expect(await named({})).toBeUndefined();
});
