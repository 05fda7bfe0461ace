/** A test that waits for what cannot come any more fails at once, with the reason. */
import { expect, test } from '@jest/globals';
import { startMcpProcess } from '../../support/servers/real-servers.ts';
import { Hopeless, until } from '../../support/until.ts';

test('an error of a probe means "not yet", unless it says that there is no hope', async () => {
  let tries = 0;
  const third = () => {
    tries += 1;
    if (tries < 3) throw new Error('not yet');
    return tries;
  };
  expect(await until(third)).toBe(3);
  const dead = () => {
    throw new Hopeless('it has ended');
  };
  await expect(until(dead)).rejects.toThrow('it has ended');
});

test('a server process that dies before it answers is not waited for, and its last words are told', async () => {
  const dying = startMcpProcess({ args: () => ['-e', 'console.error("no such port"); process.exit(3)'] });
  await expect(dying).rejects.toMatchObject({
    message: expect.stringContaining('no such port'),
    cause: { message: 'it ended with 3' },
  });
});
