/** The lab's number, in one place. */
export const INCIDENT_LAB = 8

/** What the incidents happen to: the objects of labs/08-incidents/manifests/shop.yaml. */
export const SHOP_OBJECTS = {
  manifest: 'labs/08-incidents/manifests/shop.yaml',
  namespace: 'default',
  shop: 'shop',
  nodePortService: 'shop-np',
  customer: { namespace: 'default', name: 'customer' },
} as const

/** All objects of the incidents have it. */
export const INCIDENT_LABEL = 'lab=incidents'
