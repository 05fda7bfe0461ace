/** The one way out of a worker's activities: what may be contacted is what its configuration names. */
import { createEgress, type Egress } from '../activities/egress/fetch.ts';
import { PROVIDER_URLS } from '../activities/models/provider.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { contactedUrls } from './config-urls.ts';

export function openEgress(config: Config): Egress {
  const urls = [...contactedUrls(config).map(({ url }) => url), ...providersOf(config)];
  return createEgress({ rules: config.egress, origins: new Set(urls.map((url) => new URL(url).origin)) });
}

/** Models without a `baseUrl`. */
function providersOf({ models }: Config): string[] {
  return Object.values(models).flatMap((model) =>
    (model.provider === 'openai' || model.provider === 'anthropic') && model.baseUrl === undefined
      ? [PROVIDER_URLS[model.provider]]
      : [],
  );
}
