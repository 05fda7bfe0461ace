/** What a configuration may say and its operator probably does not mean. */
import { looksRandom } from '../activities/tokens/secret-headers.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import { approverWarnings } from './approver-warnings.ts';
import { catalogWarnings } from './catalog-warnings.ts';
import { namesakeWarnings } from './namesake-warnings.ts';
import { ruleWarnings } from './rule-warnings.ts';
import { credentialsOf, isExchanged } from '../activities/tokens/clients.ts';

/** What is allowed and probably not meant. */
export function warningsOf(config: Config): string[] {
  const warnings: string[] = [];
  const configured = Object.keys(config.servers);
  for (const name of Object.keys(config.policy.servers ?? {})) {
    if (configured.includes(name)) continue;
    const path = pathText(['policy', 'servers', name]);
    warnings.push(
      config.egress.runServers.length === 0
        ? `${path} never applies: no server ${name} is configured, and runs may not bring servers (egress.runServers).`
        : `${path} applies only to runs that bring a server under the name ${name}: none is configured.`,
    );
  }
  for (const [name, { url }] of Object.entries(config.servers)) {
    // A warning: ids of tenants and workspaces look the same.
    if (new URL(url).pathname.split('/').some(looksRandom))
      warnings.push(
        `${pathText(['servers', name, 'url'])} has a part that looks like a secret: a URL stands in history, logs and requests. If it is one, use headers or credentials.`,
      );
  }
  for (const { path: at, name } of credentialsOf(config).filter(({ credentials }) => credentials.kind === 'given')) {
    const path = pathText(at);
    if (config.policy.givenTokens === 'deny')
      warnings.push(`${path} is given, which policy.givenTokens: deny forbids: no call of ${name} will have a token.`);
    else if (config.grants.keys.length === 0 && config.vault === undefined)
      warnings.push(`${path} is given, and grants.keys is empty: no run can seal an authorization for ${name}.`);
  }
  for (const { path: at, name } of credentialsOf(config).filter(({ credentials }) => isExchanged(credentials))) {
    if (config.grants.keys.length === 0)
      warnings.push(
        `${pathText(at)} exchanges what callers seal, and grants.keys is empty: no run can seal for ${name}.`,
      );
  }
  if (config.issuer !== undefined && config.health === undefined)
    warnings.push('issuer publishes its keys nowhere: no worker with this file has a health port (health.port).');
  for (const [name, { protocol, elicitation, limits }] of Object.entries(config.servers)) {
    if (elicitation === undefined) continue;
    const path = pathText(['servers', name, 'elicitation']);
    if (protocol === '2026-07-28')
      warnings.push(`${path} never applies: a server of 2026-07-28 asks in another way, and waits on no connection.`);
    else if (limits?.concurrency === 1)
      warnings.push(`${path} lets one call wait for people, and limits.concurrency lets no other leave meanwhile.`);
  }
  for (const [name, { repeatable }] of Object.entries(config.servers)) {
    const tools = config.policy.servers?.[name]?.tools ?? {};
    for (const tool of repeatable) {
      const rule = Object.hasOwn(tools, tool) ? tools[tool] : undefined;
      const action = typeof rule === 'string' ? rule : rule?.action;
      if (action === 'deny')
        warnings.push(`${pathText(['servers', name, 'repeatable'])} names ${tool}, which policy denies.`);
    }
  }
  return [
    ...warnings,
    ...ruleWarnings(config.policy, configured),
    ...approverWarnings(config),
    ...catalogWarnings(config),
    ...namesakeWarnings(config),
  ];
}
