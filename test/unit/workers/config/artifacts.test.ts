/** Where a configuration keeps artifacts, and for how long (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { load, refusedAt } = useConfigFolders();
const BUCKET = {
  endpoint: 'https://s3.example.com',
  bucket: 'artifacts',
  accessKeyId: 'AKID',
  secretAccessKey: 'canary-secret',
};
const s3 = (changes: object): object => ({ s3: { ...BUCKET, ...changes } });
const DAYS_30 = { wallClockSeconds: 2_592_000 };

describe('the artifacts of a configuration', () => {
  test('stand in a directory beside it, where nothing is said', async () => {
    expect((await load('{}')).config.artifacts).toEqual({ directory: '.countersign/artifacts' });
  });

  test.each([
    ['a bucket', s3({})],
    ['a folder of a bucket', s3({ prefix: 'teams/agents-1', region: 'eu-central-1', sessionToken: 'canary' })],
    ['a retention above the longest run', { retentionDays: 31 }],
  ])('%s is accepted', async (_, artifacts) => {
    expect((await load(stringify({ artifacts, limits: DAYS_30 }))).config.artifacts).toMatchObject(artifacts);
  });

  test('a bucket on this machine is accepted where the operator says that this machine is meant', async () => {
    const artifacts = s3({ endpoint: 'http://127.0.0.1:9000' });
    await refusedAt('artifacts.s3.endpoint', { artifacts });
    const meant = { artifacts, egress: { allowLoopback: true } };
    expect((await load(stringify(meant))).config.artifacts).toMatchObject(artifacts);
  });

  test.each([
    ['artifacts', { ...s3({}), directory: 'store' }],
    ['artifacts.s3.endpoint', s3({ endpoint: 'http://s3.example.com' })],
    ['artifacts.s3.endpoint', s3({ endpoint: 'https://user:canary-secret@s3.example.com' })],
    ['artifacts.s3.endpoint', s3({ endpoint: 'https://s3.example.com/?token=canary-secret' })],
    ['artifacts.s3.bucket', s3({ bucket: '../up' })],
    ['artifacts.s3.prefix', s3({ prefix: 'a/../b' })],
    ['artifacts.s3.prefix', s3({ prefix: '/a' })],
    ['artifacts.s3.prefix', s3({ prefix: 'a?x=' })],
    ['artifacts.s3.accessKeyId', s3({ accessKeyId: 'two words' })],
    ['artifacts.s3.secretAccessKey', s3({ secretAccessKey: '' })],
    ['artifacts.s3.timeoutSeconds', s3({ timeoutSeconds: 600 })],
    // A run may wait for as long as it may last, and then reads what it began with.
    ['artifacts.retentionDays', { retentionDays: 30 }],
  ])('%s is refused where it is wrong, and no secret is shown', async (path, artifacts) => {
    await refusedAt(path, { artifacts, limits: DAYS_30 });
  });

  test('without a ceiling a run may last a year, and needs its artifacts for as long', async () => {
    await refusedAt('artifacts.retentionDays', { artifacts: { retentionDays: 365 } });
    expect((await load('artifacts: { retentionDays: 366 }')).config.artifacts.retentionDays).toBe(366);
  });
});
