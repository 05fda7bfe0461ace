/** The embedded engine takes ports of its own, and another process may be faster. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { lostAPort, startDevServer } from '../../../workers/dev-server.ts';
import { useConfigFolders } from '../../support/config-folder.ts';
import { withCode } from '../../support/refusal.ts';

const TAKEN =
  'level=ERROR msg="Failed to start gRPC listener" error="listen tcp 127.0.0.1:36741: bind: address already in use"';

test('a port that the server chose for itself and lost is told from one that was named', () => {
  expect(lostAPort(TAKEN, {})).toBe(true);
  expect(lostAPort(TAKEN, { port: 7233 })).toBe(true);
  expect(lostAPort(TAKEN, { port: 36741 })).toBe(false);
  expect(lostAPort(TAKEN, { uiPort: 36741 })).toBe(false);
  expect(lostAPort('unable to open database file', {})).toBe(false);
});

describe('a server that ends at once', () => {
  const { folder } = useConfigFolders();

  async function startsOf(says: string, then = ''): Promise<number> {
    const directory = await folder();
    const [executable, count] = [join(directory, 'temporal'), join(directory, 'count')];
    await writeFile(
      executable,
      `#!/bin/sh\necho start >> '${count}'\necho '${says}' >&2\necho '${then}' >&2\nexit 2\n`,
      { mode: 0o755 },
    );
    await expect(startDevServer({ executable })).rejects.toMatchObject(withCode('ENGINE_UNAVAILABLE', says));
    return (await readFile(count, 'utf8')).trim().split('\n').length;
  }

  test('is started three times where it lost a port', async () => {
    expect(await startsOf(TAKEN)).toBe(3);
  });

  test('also where it tells its whole stack afterwards', async () => {
    expect(await startsOf(TAKEN, 'main.main()'.repeat(5_000))).toBe(3);
  });

  test('and once for any other reason', async () => {
    expect(await startsOf('unable to open database file')).toBe(1);
  });

  test('is not waited for where a signal ended it, and says so', async () => {
    const executable = join(await folder(), 'temporal');
    await writeFile(executable, '#!/bin/sh\nkill -KILL $$\n', { mode: 0o755 });
    await expect(startDevServer({ executable })).rejects.toMatchObject(
      withCode('ENGINE_UNAVAILABLE', 'It was ended by SIGKILL'),
    );
  }, 15_000);
});
