/**
 * What later runs of this deployment could not honour.
 *
 * Owns: the port, and the adapter that goes by configuration. An embedder with entitlements of its own brings another one.
 * 1. Only what would be new is looked at: taking away, and what stands already, is never objected to.
 */
import type { Review, ReviewInput } from '../../contracts/catalog-activities.ts';
import type { ToolSetting } from '../../contracts/schemas/catalog.ts';
import type { Config, UnsupportedSetting } from '../../contracts/schemas/config.ts';

export type Objection = Review['objections'][number];

export interface Capabilities {
  objectionsTo(wanted: ReviewInput): Promise<readonly Objection[]>;
}

export function configuredCapabilities({ catalog: { unsupported } }: Pick<Config, 'catalog'>): Capabilities {
  return {
    // Async: another adapter may ask a service.
    objectionsTo: async (wanted) => unsupported.flatMap((rule) => objectionsOf(rule, wanted)),
  };
}

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
