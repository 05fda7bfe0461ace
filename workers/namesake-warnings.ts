/** Names of the configuration with one address: where messages are signed, consent names a server by its address alone. */
import { authorityOf } from '../activities/trust/namesake.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import { canonicalServerUrl } from '../domain/server-url.ts';

export function namesakeWarnings({ servers, trust }: Config): string[] {
  if (trust.mode !== 'signed') return [];
  const entries = Object.entries(servers);
  return entries.flatMap(([name, server], index) => {
    const url = canonicalServerUrl(server.url);
    const other = entries
      .slice(0, index)
      .find(([, each]) => canonicalServerUrl(each.url) === url && authorityOf(each) !== authorityOf(server));
    if (other === undefined) return [];
    const path = pathText(['servers', name]);
    return [
      `${path} has the address of ${other[0]} and other credentials: in trust mode signed a run that names both makes no call of theirs that people have approved.`,
    ];
  });
}
