/**
 * Says what the configuration holds about a change of a catalog: who may make it, and whether later runs could honour
 * it.
 *
 * 1. The configuration is asked for each change, so that a right that was taken away counts at once.
 * 2. In trust mode `signed` the person who asks is proven first (`activities/trust/change-proof.ts`).
 * 3. The operator decides where a server may be, and with which credentials: an administrator of a tenant only chooses
 *    among them.
 * 4. Objections concern only what would be new: removals, and what is already in the catalog, are never objected to.
 */
import { defined } from '../../contracts/defined.ts';
import type { CatalogConnection, ToolSetting } from '../../contracts/schemas/catalog.ts';
import type { Config, UnsupportedSetting } from '../../contracts/schemas/config.ts';
import type { Review, ReviewInput } from '../../contracts/wire/catalog.ts';
import { administratorsOf } from '../../domain/catalog/rights.ts';
import { comparing } from '../../domain/policy/approvers.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { urlObjection } from '../egress/fetch.ts';
import { currentScheduler } from '../kit/activity.ts';
import { takeGrant } from '../tokens/configured.ts';
import { type ChangeProofParts, proveChange } from '../trust/change-proof.ts';
import { isCatalogOrigin } from './reader.ts';
import { ownValue } from '../kit/json.ts';

/** @param signing set in trust mode `signed` */
export function createReviewChange(
  config: Config,
  signing?: ChangeProofParts,
): (input: ReviewInput) => Promise<Review> {
  return async (input) => {
    const { tenant, connection, settings = [] } = input;
    const { newTools, loosening, administrators } = config.catalog;
    const proven = signing === undefined ? {} : await proveChange(signing, input, currentScheduler());
    // A person who is not believed learns nothing of this deployment.
    if (proven.unproven !== undefined)
      return { rules: { administrators: [], newTools, loosening }, objections: [], ...proven };
    return {
      rules: {
        administrators: administratorsOf(administrators, tenant),
        newTools,
        loosening,
        ...comparing(config.policy),
      },
      objections: [
        ...(connection === undefined ? [] : connectionObjections(config, input, connection)),
        ...settings.flatMap(({ tool, setting, before }) =>
          namesNobody(setting) && !namesNobody(before)
            ? [{ path: `tools.${tool}.approvers`, reason: 'names nobody, so that every request would expire.' }]
            : [],
        ),
        ...config.catalog.unsupported.flatMap((rule) => objectionsOf(rule, input)),
      ],
      ...defined({ taskQueue: ownValue(config.servers, input.server)?.taskQueue }),
      ...proven,
    };
  };
}

function namesNobody({ approvers }: ToolSetting): boolean {
  return approvers !== undefined && approvers.ids.length + approvers.groups.length === 0;
}

function connectionObjections(config: Config, { server, tenant }: ReviewInput, wanted: CatalogConnection): Objection[] {
  const { url, credentials, taskQueue } = wanted;
  if (!URL.canParse(url)) return [{ path: 'url', reason: 'is no address that can be reached.' }];
  const configured = ownValue(config.servers, server);
  const objections: Objection[] = [];
  if (configured !== undefined) {
    if (takeGrant(configured.credentials))
      objections.push({
        path: 'server',
        reason: `is called with what each run was given (servers.${server}.credentials), so its tools cannot be listed for a catalog.`,
      });
    if (canonicalServerUrl(configured.url) !== url)
      objections.push({ path: 'url', reason: `is not the configured URL of ${server}; choose another name.` });
    if (credentials !== undefined)
      objections.push({ path: 'credentials', reason: `are configured for ${server} (servers.${server}.credentials).` });
  } else if (!isCatalogOrigin(config, url)) {
    objections.push({
      path: 'url',
      reason: `has an origin that catalog.origins does not list; ask the operator of the workers.`,
    });
  }
  const forbidden = urlObjection(url, config.egress);
  if (forbidden !== undefined) objections.push({ path: 'url', reason: `${forbidden}.` });
  if (configured === undefined && credentials !== undefined) {
    const named = ownValue(config.credentials, credentials);
    if (named === undefined)
      objections.push({ path: 'credentials', reason: `${credentials} is not among the configured credentials.` });
    else if (!named.tenants.includes(tenant))
      objections.push({ path: 'credentials', reason: `${credentials} are not for tenant ${tenant}.` });
    else if (!named.origins.some((origin) => new URL(origin).origin === new URL(url).origin))
      objections.push({ path: 'credentials', reason: `${credentials} may not be sent to that origin.` });
  }
  const own = configured?.taskQueue;
  const queues =
    own === undefined
      ? [config.taskQueue, ...Object.values(config.servers).flatMap((each) => each.taskQueue ?? [])]
      : [own];
  if (taskQueue !== undefined && !queues.includes(taskQueue))
    objections.push({
      path: 'taskQueue',
      reason: `${taskQueue} is not served for ${server} by this configuration (${queues.join(', ')}).`,
    });
  return objections;
}

type Objection = Review['objections'][number];

function objectionsOf(
  rule: UnsupportedSetting,
  { tenant, server, connection, settings = [] }: ReviewInput,
): Objection[] {
  if (rule.tenants?.includes(tenant) === false || rule.servers?.includes(server) === false) return [];
  switch (rule.setting) {
    case 'trusted':
      return connection?.trusted === true ? [{ path: 'trusted', reason: rule.reason }] : [];
    case 'credentials':
    case 'taskQueue':
      return connection?.[rule.setting] === undefined ? [] : [{ path: rule.setting, reason: rule.reason }];
    case 'enabled':
    case 'requiresApproval':
    case 'approvers': {
      const { setting: name } = rule;
      return settings
        .filter(
          ({ tool, setting, before }) =>
            rule.tools?.includes(tool) !== false && isSet(setting, name) && !(isUsable(before) && isSet(before, name)),
        )
        .map(({ tool }) => ({ path: `tools.${tool}.${name}`, reason: rule.reason }));
    }
  }
}

function isSet(setting: ToolSetting, name: 'enabled' | 'requiresApproval' | 'approvers'): boolean {
  return name === 'approvers' ? setting.approvers !== undefined : setting[name];
}

/** A tool that comes into use brings all its settings with it. */
function isUsable({ enabled, denied }: ToolSetting): boolean {
  return enabled && !denied;
}
