package monitor

func (s Sources) withDefaults() Sources {
	if s.CPU == nil {
		s.CPU = systemCPU
	}
	if s.RAM == nil {
		s.RAM = systemRAM
	}
	if s.Interfaces == nil {
		s.Interfaces = systemInterfaces
	}
	if s.Partition == nil {
		s.Partition = systemPartition
	}
	return s
}

// systemRAM counts memory that the kernel would give back as free.
func systemRAM() (float64, error) {
	total, available, err := memory()
	if err != nil {
		return 0, err
	}
	return 1 - float64(available)/float64(total), nil
}

// Memory is how many bytes of RAM the node has.
func Memory() (uint64, error) {
	total, _, err := memory()
	return total, err
}
