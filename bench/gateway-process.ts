/** A gateway as it is deployed: a process of the command, with a configuration file. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** @param main the command, built or as sources */
export async function startGatewayProcess(
  configFile: string,
  address: string,
  main: string,
): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const loader = main.endsWith('.ts') ? ['--import', 'tsx'] : [];
  const args = ['gateway', '--json', '--config', configFile, '--address', address];
  const child = spawn(process.execPath, [...loader, main, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  let text = '';
  for await (const line of createInterface({ input: child.stdout })) {
    text += line;
    const url = /"url":\s*"([^"]+)"/.exec(text)?.[1];
    if (url === undefined) continue;
    child.stdout.resume();
    return { child, url };
  }
  throw new Error('the gateway ended before it listened');
}
