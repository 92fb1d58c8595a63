# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request asks of Placement; that Nova asks the same is in tests/functional."""

import pytest

from inventory.nova.candidates import RequestGroup, RequestGroups
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from scheduler.claims.resource_request import (
    TraitOptions,
    needs_placement_first,
    pins_all_cpus,
    resource_request,
)
from scheduler.objects.request_spec import Destination, RequestLevelParams
from scheduler.objects.request_spec import RequestGroup as RequestedResources
from tests.builders import a_request, an_image

DISABLED = "!COMPUTE_STATUS_DISABLED"
SIZES = "DISK_GB:20,MEMORY_MB:2048,VCPU:2"
PORT = RequestedResources(resources={"NET_BW_EGR_KILOBIT_PER_SEC": 10}, requester_id="port1")


def query(*arguments, **changes):
    """Return the parameters by name; the arguments follow the spec."""
    return dict(resource_request(a_request(**changes), *arguments).query(None, None))


def test_a_flavor_asks_for_its_sizes_on_a_host_that_is_enabled():
    assert query() == {"resources": SIZES, "root_required": DISABLED}


@pytest.mark.parametrize(
    ("sizes", "disk_gb"),
    [({"swap": 1}, 21), ({"swap": 1024}, 21), ({"swap": 1025}, 22), ({"ephemeral_gb": 5}, 25)],
)
def test_swap_is_rounded_up_to_whole_gb(sizes, disk_gb):
    assert query(**sizes)["resources"] == f"DISK_GB:{disk_gb},MEMORY_MB:2048,VCPU:2"


def test_a_root_disk_that_is_a_volume_is_no_disk_of_the_host():
    assert query(is_bfv=True)["resources"] == "MEMORY_MB:2048,VCPU:2"


def test_amounts_of_the_flavor_win_and_0_removes():
    specs = {"resources:VCPU": "0", "resources:MEMORY_MB": "64", "resources:CUSTOM_GOLD": "1"}
    assert query(extra_specs=specs)["resources"] == "CUSTOM_GOLD:1,DISK_GB:20,MEMORY_MB:64"


def test_amounts_that_are_asked_for_elsewhere_are_not_asked_for_again():
    specs = {"resources1:DISK_GB": "5"}
    memory = RequestedResources(resources={"MEMORY_MB": 64}, requester_id="port1")
    assert query(extra_specs=specs, requested_resources=[memory])["resources"] == "VCPU:2"


@pytest.mark.parametrize("amount", ["some", "-1", "", "1.5"])
def test_an_amount_that_is_none_is_an_error(amount):
    with pytest.raises(
        ValueError, match=r"'resources1:VGPU' = .* is not a whole number of 0 or more"
    ):
        query(extra_specs={"resources1:VGPU": amount})


def test_a_trait_is_required_or_forbidden():
    with pytest.raises(
        ValueError, match="'trait:CUSTOM_RED' = 'Required' of the flavor is neither"
    ):
        query(extra_specs={"trait:CUSTOM_RED": "Required"})


@pytest.mark.parametrize(
    ("specs", "named"),
    [
        ({"hw:tpm_version": "3"}, "'hw:tpm_version' = '3' is not one of 1.2, 2.0"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "x"}, "'hw:tpm_model' = 'x' is not one of"),
        (
            {"hw:tpm_version": "2.0", "hw:tpm_secret_security": "x"},
            "'hw:tpm_secret_security' = 'x' is not one of user, host, deployment",
        ),
        ({"hw:mem_encryption": "1", "hw:mem_encryption_model": "x"}, "'hw:mem_encryption_model' ="),
    ],
)
def test_a_model_that_there_is_not_is_an_error(specs, named):
    with pytest.raises(ValueError, match=named):
        query(extra_specs=specs)


def test_traits_of_a_flavor_by_group():
    specs = {"trait:CUSTOM_RED": "required", "trait_A:CUSTOM_RED": "forbidden"}
    found = query(extra_specs=specs | {"hw:cpu_thread_policy": "require"})
    assert found["required"] == "CUSTOM_RED,HW_CPU_HYPERTHREADING"
    assert found["required_A"] == "!CUSTOM_RED"


def test_what_has_no_name_asks_for_nothing():
    assert query(extra_specs={"resources:": "1", "trait:": "required", "trait": "x"}) == query()


def test_the_policy_is_none_where_ports_alone_make_it_several_groups():
    ports = [PORT, RequestedResources(resources={"VGPU": 1}, requester_id="port2")]
    assert query(requested_resources=ports)["group_policy"] == "none"
    assert "group_policy" not in query(requested_resources=[PORT])


def test_several_groups_of_a_flavor_without_a_policy_are_left_to_placement_to_refuse():
    specs = {"resources1:VGPU": "1", "resources2:VGPU": "1"}
    assert "group_policy" not in query(extra_specs=specs)
    assert query(extra_specs=specs | {"group_policy": "isolate"})["group_policy"] == "isolate"


def test_groups_have_names_of_their_own():
    with pytest.raises(ValueError, match="two groups of resources have the name 'port1'"):
        query(requested_resources=[PORT, PORT])
    with pytest.raises(ValueError, match="no requester_id"):
        query(requested_resources=[RequestedResources(resources={"VGPU": 1})])


def test_a_group_that_asks_for_nothing_is_left_out():
    nothing = RequestedResources(resources={"VGPU": 0}, requester_id="port2")
    assert query(requested_resources=[nothing]) == query()


def test_pinned_cpus_are_asked_for_as_such_or_as_before():
    pinned = {"extra_specs": {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}}
    assert pins_all_cpus(a_request(**pinned))
    assert query(**pinned)["resources"] == "DISK_GB:20,MEMORY_MB:2048,PCPU:2"
    assert query(**pinned)["required"] == "!HW_CPU_HYPERTHREADING"
    assert query(None, False, **pinned) == query()


def test_of_a_mixed_flavor_some_cpus_are_pinned():
    cell = InstanceNUMACell(0, 2048, cpuset={0}, pcpuset={1}, cpu_policy="mixed")
    mixed = {
        "extra_specs": {"hw:cpu_policy": "mixed"},
        "numa_topology": InstanceNUMATopology([cell]),
    }
    assert not pins_all_cpus(a_request(**mixed))
    assert query(**mixed)["resources"] == "DISK_GB:20,MEMORY_MB:2048,PCPU:1,VCPU:1"


def test_a_flavor_without_resources_still_makes_a_query():
    specs = {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
    found = resource_request(a_request(extra_specs=specs))
    assert found.query("tree1", None) == [("root_required", DISABLED)]


def test_a_destination_narrows_the_group_of_the_instance_only():
    destination = Destination(aggregates=["a1,a2", "a3"], forbidden_aggregates={"a4"})
    spec = a_request(
        extra_specs={"resources1:VGPU": "1"},
        requested_destination=destination,
        requested_resources=[PORT],
    )
    main, *others = resource_request(spec).groups
    assert main.member_of == [["a1", "a2"], ["a3"]]
    assert main.forbidden_aggregates == ["a4"]
    assert [each.suffix for each in others] == ["1", "port1"]
    assert not any(each.member_of or each.forbidden_aggregates for each in others)


def test_a_port_managed_by_a_remote_card_needs_a_host_that_can():
    """Nova asks Neutron what type the port has; the device that comes with it says so."""
    devices = {
        value: [InstancePCIRequest(1, [{"remote_managed": value, "physical_network": None}])]
        for value in ("True", "False")
    }
    roots = {
        value: query(pci_requests=InstancePCIRequests(requests=each))["root_required"]
        for value, each in devices.items()
    }
    assert roots == {"True": f"COMPUTE_REMOTE_MANAGED_PORTS,{DISABLED}", "False": DISABLED}


def test_devices_are_to_be_novas_own_where_computes_report_that():
    requests = [InstancePCIRequest(1, [{}], request_id="r1-1")]
    device = RequestedResources(resources={"CUSTOM_PCI": 1}, requester_id="r1-1-0")
    spec = a_request(
        pci_requests=InstancePCIRequests(requests=requests), requested_resources=[device, PORT]
    )
    found = resource_request(spec, TraitOptions(owner_nova=True))
    assert [each.required for each in found.groups] == [[], ["OWNER_NOVA"], []]
    assert list(found.root_required) == ["OWNER_NOVA", DISABLED]
    assert not resource_request(spec).groups[1].required


def test_computes_before_nova_34_do_not_say_how_they_keep_secrets():
    specs = {"hw:tpm_version": "2.0"}
    secret = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
    assert query(extra_specs=specs)["root_required"] == f"{secret},{DISABLED}"
    older = TraitOptions(tpm_secret_security=False)
    assert query(older, extra_specs=specs)["root_required"] == DISABLED


def test_each_trait_of_an_image_counts_by_itself():
    """Nova asks for none of them if there is one that it does not know, and for no IOMMU at all."""
    image = an_image(hw_disk_bus="virtio", hw_vif_model="odd", hw_viommu_model="smmuv3")
    found = query(TraitOptions(image_metadata=True), image=image)["root_required"]
    assert found == f"COMPUTE_STORAGE_BUS_VIRTIO,COMPUTE_VIOMMU_MODEL_SMMUV3,{DISABLED}"
    assert query(image=image)["root_required"] == DISABLED


@pytest.mark.parametrize(
    ("disk_format", "is_bfv", "found"),
    [
        ("raw", False, f"COMPUTE_IMAGE_TYPE_RAW,{DISABLED}"),
        ("raw", True, DISABLED),
        ("odd", False, DISABLED),
        (None, False, DISABLED),
    ],
)
def test_the_type_of_an_image(disk_format, is_bfv, found):
    options = TraitOptions(image_type_support=True)
    image = an_image(disk_format=disk_format)
    assert query(options, image=image, is_bfv=is_bfv)["root_required"] == found
    assert query(options, is_bfv=is_bfv)["root_required"] == DISABLED


def test_what_the_host_table_knows_need_not_be_asked_first():
    destination = Destination(aggregates=["a1"], forbidden_aggregates={"a2"})
    params = RequestLevelParams(root_required={"COMPUTE_NODE", "OWNER_NOVA"})
    pinned = {"hw:cpu_policy": "dedicated"}
    spec = a_request(
        extra_specs=pinned, requested_destination=destination, request_level_params=params
    )
    assert not needs_placement_first(resource_request(spec))


@pytest.mark.parametrize(
    "groups",
    [
        RequestGroups([RequestGroup({"VCPU": 1}, suffix="1")]),
        RequestGroups([RequestGroup({"VCPU": 1}, required=["CUSTOM_RED"])]),
        RequestGroups([RequestGroup({"VCPU": 1}, forbidden=["CUSTOM_RED"])]),
        RequestGroups([RequestGroup({"CUSTOM_GOLD": 1})]),
        RequestGroups([RequestGroup({"VCPU": 1})], root_required=["CUSTOM_RED"]),
        RequestGroups([RequestGroup({"VCPU": 1})], root_required=["!CUSTOM_RED"]),
    ],
)
def test_what_only_placement_knows_is_asked_first(groups):
    assert needs_placement_first(groups)
