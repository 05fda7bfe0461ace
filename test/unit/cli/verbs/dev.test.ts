/** What `countersign dev` prints can be copied into a shell, and names files that are there. */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { type DevAddresses, devAnswer } from '../../../../cli/verbs/dev.ts';

const ADDRESSES: DevAddresses = {
  address: '127.0.0.1:7233',
  namespace: 'default',
  uiUrl: 'http://127.0.0.1:8233',
  codec: undefined,
  gateway: undefined,
  files: { url: 'http://127.0.0.1:8234/mcp', folder: '.countersign/files' },
  model: 'scripted',
  config: '.countersign/countersign.yaml',
  directory: '.countersign',
  taskQueue: 'countersign',
  buildId: '0123456789ab',
  trust: { mode: 'temporal' },
  environment: {},
  example: 'node_modules/countersign/examples/write-a-summary.yaml',
};

function textOf(over: Partial<DevAddresses>): string {
  return devAnswer({ ...ADDRESSES, ...over }).text(plain);
}

test('its lines are words of a shell, whatever the paths hold', () => {
  const text = textOf({
    environment: { TEMPORAL_ADDRESS: '127.0.0.1:7300', COUNTERSIGN_CONFIG: "/tmp/ann's try/countersign.yaml" },
    example: '/opt/a b/write-a-summary.yaml',
  });
  expect(text).toContain(
    "export TEMPORAL_ADDRESS=127.0.0.1:7300 COUNTERSIGN_CONFIG='/tmp/ann'\\''s try/countersign.yaml'\n",
  );
  expect(text).toContain("countersign start '/opt/a b/write-a-summary.yaml' --id summary-1\n");
});

test('it names the spec where it lies, and no commands for a spec or a model that is not there', () => {
  expect(textOf({})).toContain('start node_modules/countersign/examples/write-a-summary.yaml --id');
  expect(textOf({ example: undefined })).not.toContain('countersign start');
  expect(textOf({ model: undefined })).not.toContain('countersign start');
});

test('it says loudly that whoever reaches the codec server reads encrypted runs, and nothing where there is none', () => {
  expect(textOf({ codec: 'http://127.0.0.1:4711' })).toMatch(
    /codec .*127\.0\.0\.1:4711 {2}\(DEVELOPMENT: whoever reaches it/,
  );
  expect(textOf({})).not.toContain('codec');
});
